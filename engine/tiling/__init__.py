"""Tiles of frames, their blending, and clips of latents."""
