"""Benchmark cases: one module for each, loaded when it is run."""
