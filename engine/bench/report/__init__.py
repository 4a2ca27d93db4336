"""Benchmark results as text, Markdown and SVG."""
