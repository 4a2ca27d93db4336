"""The NVIDIA runtime in the window: what it offers, a page with all of them, a line in settings."""
