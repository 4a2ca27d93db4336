"""Timing and memory measurement of a piece of work."""
