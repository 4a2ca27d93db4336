"""Comparison of a result with its source."""
