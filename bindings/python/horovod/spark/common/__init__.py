"""The common part of all frameworks' estimators."""
