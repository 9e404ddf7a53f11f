"""What every framework's module shares: life cycle, process sets, exceptions, helpers."""
