"""The common part of all frameworks' modules: life cycle, process sets, exceptions, helpers."""
