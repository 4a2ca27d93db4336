"""Names in the published SeedVR2 files -> names of our modules."""

from __future__ import annotations

from engine.weights.keymap import KeyMap

VAE_KEYS = KeyMap()  # module paths as they are: no prefix, no renaming
