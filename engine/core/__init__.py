"""Errors, geometry, units, paths, logging, control and files: what every room uses."""
