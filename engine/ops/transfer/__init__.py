"""Transfers between host and device: pinned memory, weight streaming, tile canvas."""
