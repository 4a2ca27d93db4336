"""A Wan VAE from its file, in the plain or the fast variant."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, Union

import torch

from engine.files.formats.open_weights import WeightsFile, open_weights
from engine.models.load import FiniteWeights, fill, on_meta
from engine.models.wan.vae.config import WanConfig
from engine.models.wan.vae.keymap import wan_config_of, wan_keys
from engine.models.wan.vae.plain import WanVae
from engine.settings.optimisations import VaeSwitches

if TYPE_CHECKING:
    from engine.models.wan.vae.fast import FastWanVae

Form = Literal["plain", "fast"]
Wan = Union[WanVae, "FastWanVae"]

FORMS: tuple[Form, ...] = ("plain", "fast")


def load_wan(
    path: Path,
    *,
    form: Form,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    switches: VaeSwitches | None = None,
    config: WanConfig | None = None,
) -> Wan:
    """Read the weights strictly; the model is ready for inference.

    Args:
        path: Safetensors file or .pth, with the names of Wan, ComfyUI or diffusers, in any
            floating-point format.
        form: "plain" follows the specification, "fast" gives the same sooner.
        device: Device that it computes on.
        dtype: Type that it computes in; the file's values are converted once.
        switches: Optimisations of the fast variant; None: the usual ones.
        config: None reads it from the file.

    Raises:
        WeightsMissing, WeightsUnreadable, NotSafetensors, WeightsTruncated, WeightsDamaged,
        UnsafeWeights: No file of these formats, not whole, or more than a list of tensors.
        WrongModel: A whole file, but of another model.
        MissingKeys, ExtraKeys, WrongShapes, UnknownKeys: Not exactly the tensors of such a VAE.
        WrongNumbers: Tensors of whole numbers, or with values that are NaN or infinite, be it
            only in `dtype`.

    Memory: the model, one tensor of the file, and for the fast variant the tables of one layer.
    """
    with open_weights(path) as file:
        config = config or wan_config_of(file)
        plain = _checked(file, config)
        keys = wan_keys(file.shapes)
        if form == "plain":
            fill(plain, FiniteWeights(file, keys, device=device, dtype=dtype), path)
            return plain.eval()
        weights = FiniteWeights(file, keys)
        return _fast(config, weights, device, dtype, switches or VaeSwitches())


def check_wan(path: Path) -> None:
    """Checks that a file has exactly the tensors of a Wan VAE; reads none of their values.

    Raises:
        WeightsError: As `load_wan`.
    """
    with open_weights(path) as file:
        _checked(file, wan_config_of(file))


def _checked(file: WeightsFile, config: WanConfig) -> WanVae:
    found = FiniteWeights(file, wan_keys(file.shapes)).shapes
    return on_meta(lambda: WanVae(config), file, found)


def _fast(
    config: WanConfig,
    weights: FiniteWeights,
    device: str | torch.device,
    dtype: torch.dtype,
    switches: VaeSwitches,
) -> FastWanVae:
    from engine.models.wan.vae.fast import FastWanVae

    return FastWanVae(config, weights, device=device, dtype=dtype, switches=switches)
