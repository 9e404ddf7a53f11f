"""The launcher's and the workers' sides of elastic jobs."""
