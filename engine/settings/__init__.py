"""Choices of a user, as data."""
