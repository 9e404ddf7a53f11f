"""What elastic jobs and their workers share."""
