"""Comparison of presets on parts of a film."""
