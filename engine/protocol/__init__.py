"""Boundary of the engine: commands, events and the plain data they carry."""
