"""Lite: the built-in small convolutional upscaler."""
