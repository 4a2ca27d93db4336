"""Comparison of presets on parts of a video."""
