"""Frames to files: codecs, containers, encoding, muxing."""
