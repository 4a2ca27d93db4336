"""The models of SwiftVR from their files, in the plain or the fast variant."""

from __future__ import annotations

from engine.core.errors import WrongModel
from engine.files.formats.keymap import KeyMap
from engine.files.formats.open_weights import WeightsFile
from engine.models.identify import SWIFTVR_VAE, content_message, recognise
from engine.models.load import FiniteWeights
from engine.models.swiftvr.vae.config import ReaeConfig, infer_reae_config
from engine.models.swiftvr.vae.fast import FastReae
from engine.models.swiftvr.vae.plain import Reae
from engine.models.video_vae.load import VaeLoader

AnyReae = Reae | FastReae


def check_content(file: WeightsFile, wanted: str) -> None:
    """Refuse an open file with another model.

    Args:
        file: Open.
        wanted: A name out of `engine.models.identify`.

    Raises:
        WrongModel: It holds another model.
    """
    content = recognise(file.shapes)
    if content != wanted:
        raise WrongModel(
            "not-swiftvr",
            name=file.path.name,
            path=str(file.path),
            content=content_message(content),
            wanted=content_message(wanted),
        )


def reae_config_of(file: WeightsFile) -> ReaeConfig:
    """The configuration of the autoencoder in an open file.

    Raises:
        WrongModel: It holds another model.
    """
    check_content(file, SWIFTVR_VAE)
    return infer_reae_config(file.shapes)


REAE_LOADER = VaeLoader(
    plain=Reae,
    fast=FastReae,
    config_of=reae_config_of,
    keys_of=lambda _: KeyMap(),
    weights=FiniteWeights,
)
load_reae = REAE_LOADER.load
