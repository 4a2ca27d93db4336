"""Upreel's engine: everything but the window; it knows nothing of Qt."""
