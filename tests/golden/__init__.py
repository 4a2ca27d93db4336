"""Tensors of the published reference programs, and the check of the engine's results."""
