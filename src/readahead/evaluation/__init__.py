"""Data sets, metrics and the checks that users run on their own data."""
