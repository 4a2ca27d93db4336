"""What crosses the engine's boundary: commands, events and the plain data they carry."""
