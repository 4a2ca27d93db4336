"""Names in the published SeedVR2 files -> names of our modules."""

from __future__ import annotations

from engine.model_files.keymap import KeyMap

VAE_KEYS = KeyMap()  # module paths as they are: no prefix, no renaming

DIT_KEYS = KeyMap(
    renames=((r"^model\.diffusion_model\.", ""),),  # some tools put that before every name
    ignored=(r"^blocks\.\d+\.attn\.rope\.rope\.freqs$",),  # rounded; ours are computed
)
