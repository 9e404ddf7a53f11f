"""Parsing and naming: hosts, settings, environment, configuration file."""
