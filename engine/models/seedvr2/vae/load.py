"""A SeedVR2 VAE from its file, in the plain or the fast variant."""

from __future__ import annotations

from engine.files.formats.open_weights import WeightsFile
from engine.models.identify import SEEDVR2_VAE, other_model, recognise
from engine.models.seedvr2.vae.config import VAE_KEYS, VaeConfig, infer_vae_config
from engine.models.seedvr2.vae.fast import FastVae
from engine.models.seedvr2.vae.plain import SeedVr2Vae
from engine.models.video_vae.load import VaeLoader

Vae = SeedVr2Vae | FastVae


def vae_config_of(file: WeightsFile) -> VaeConfig:
    """The configuration of the VAE in an open file.

    Raises:
        WrongModel: It holds another model.
        UnknownKeys: Its sizes are impossible.
    """
    content = recognise(file.shapes)
    if content != SEEDVR2_VAE:
        raise other_model("not-seedvr2-vae", file.path, content)
    return infer_vae_config(file.shapes, file.metadata)


LOADER = VaeLoader(
    plain=SeedVr2Vae,
    fast=FastVae,
    config_of=vae_config_of,
    keys_of=lambda shapes: VAE_KEYS,
)
load_vae = LOADER.load
