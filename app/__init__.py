"""Upreel's window: shows what the engine says and sends it commands; the only place with Qt."""
