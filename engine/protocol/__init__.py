"""Data that crosses the engine's boundary: commands, events and what they carry."""
