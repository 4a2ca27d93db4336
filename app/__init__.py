"""Upreel's window: shows the events of the engine and sends it commands; the only place with Qt."""
