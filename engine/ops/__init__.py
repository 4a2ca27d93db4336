"""Operators on tensors; the caller chooses device and backend."""
