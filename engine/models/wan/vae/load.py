"""A Wan VAE from its file, in the plain or the fast variant.

Files have the names of Wan, ComfyUI or diffusers. Values that are NaN or
infinite, be it only in the dtype of the model, are refused.
"""

from __future__ import annotations

from engine.models.load import FiniteWeights
from engine.models.video_vae.load import VaeLoader
from engine.models.wan.vae.fast import FastWanVae
from engine.models.wan.vae.keymap import wan_config_of, wan_keys
from engine.models.wan.vae.plain import WanVae

Wan = WanVae | FastWanVae

LOADER = VaeLoader(
    plain=WanVae,
    fast=FastWanVae,
    config_of=wan_config_of,
    keys_of=wan_keys,
    weights=FiniteWeights,
)
load_wan = LOADER.load
