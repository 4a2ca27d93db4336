"""File of a Wan VAE and the configuration in its header. Loads no torch.

That holds for headers of safetensors files; an original .pth can only be read with torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from engine.core.errors import UnknownWeights, WrongModel
from engine.files.formats.open_weights import open_weights
from engine.files.model_files import Store, named, planned
from engine.models.identify import WAN2X_VAE, WAN21_VAE, WAN22_VAE, content_message
from engine.models.wan.vae.config import WAN2X, WAN21, WAN22, WanConfig
from engine.models.wan.vae.keymap import wan_config_of
from engine.protocol.plan import WeightsPlan

FOLD_S = 4e-9  # CPU seconds to fold the weights of a byte of a file, measured in float32

WanModel = Literal["wan-2x", "wan21-vae", "wan22-vae"]

PUBLISHED: dict[str, WanConfig] = {"wan-2x": WAN2X, "wan21-vae": WAN21, "wan22-vae": WAN22}
_CONTENT = {"wan-2x": WAN2X_VAE, "wan21-vae": WAN21_VAE, "wan22-vae": WAN22_VAE}


@dataclass(frozen=True, slots=True, kw_only=True)
class WanFiles:
    """The VAE of a job; `missing` holds its id in the catalogue while it is not here.

    The configuration of a file that is missing is that of the published one.
    """

    vae: WeightsPlan
    config: WanConfig
    missing: tuple[str, ...] = ()


def files_of_wan(model: str, vae: str = "", store: Store | None = None) -> WanFiles:
    """The file for a model: the user's own where it is named, else one of the catalogue's.

    Of several published files with the same weights, one that is installed is taken.

    Args:
        model: "wan-2x", "wan21-vae" or "wan22-vae".
        vae: File of the user's own; "" for none.
        store: Folder of model files; None for the user's.

    Raises:
        UnknownWeights: There is no such model.
        WeightsMissing: The file that the user named is not there.
        WeightsError: The file is none of this kind.
    """
    _known(model)
    if vae:
        weights = named(Path(vae))
    else:
        store = store or Store()
        weights = planned(store.best_vae(model), store)
    missing = () if weights.is_here else (weights.published,)
    return WanFiles(vae=weights, config=wan_config(weights, model), missing=missing)


def wan_config(weights: WeightsPlan, model: str) -> WanConfig:
    """Configuration of a planned file; of one that is not here, that of the published one.

    Raises:
        UnknownWeights: There is no such model.
        WrongModel: It is another one of the Wan VAEs, or no Wan VAE.
        WeightsError: The file was removed, or cannot be read.
    """
    wanted = _known(model)
    if not weights.is_here:
        return wanted
    config = _read(weights)
    if (config.layout, config.upscale) != (wanted.layout, wanted.upscale):
        raise WrongModel(
            "other-wan",
            name=weights.path.name,
            path=str(weights.path),
            content=content_message(_CONTENT[model_of(config)]),
            wanted=content_message(_CONTENT[model]),
        )
    return config


def model_of(config: WanConfig) -> str:
    """Which published model a file resembles."""
    if config.layout == "2.2":
        return "wan22-vae"
    return "wan-2x" if config.upscale > 1 else "wan21-vae"


def _known(model: str) -> WanConfig:
    if model not in PUBLISHED:
        raise UnknownWeights("wan-model", file=model, known=tuple(PUBLISHED))
    return PUBLISHED[model]


@cache
def _read(weights: WeightsPlan) -> WanConfig:
    with open_weights(weights.path) as file:
        return wan_config_of(file)
