"""A SeedVR2 VAE from its file, in the plain or the fast variant."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch

from engine.core.errors import WrongModel
from engine.files.formats.safetensors_file import SafetensorsFile
from engine.models.identify import SEEDVR2_VAE, content_message, recognise
from engine.models.load import FileWeights, load_module, on_meta
from engine.models.seedvr2.vae.config import VAE_KEYS, VaeConfig, infer_vae_config
from engine.models.seedvr2.vae.fast import FastVae
from engine.models.seedvr2.vae.plain import SeedVr2Vae
from engine.settings.optimisations import VaeSwitches

Form = Literal["plain", "fast"]
Vae = SeedVr2Vae | FastVae

FORMS: tuple[Form, ...] = ("plain", "fast")


def load_vae(
    path: Path,
    *,
    form: Form,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
    switches: VaeSwitches | None = None,
    config: VaeConfig | None = None,
) -> Vae:
    """Read the weights strictly; the model is ready for inference.

    Args:
        path: Safetensors file with the published names, any floating-point format.
        form: "plain" follows the specification, "fast" gives the same sooner.
        device: Device that it computes on.
        dtype: Type that it computes in; the file's weights are converted once.
        switches: Optimisations of the fast variant; None: the usual ones.
        config: None reads it from the file.

    Raises:
        WeightsMissing, WeightsUnreadable, NotSafetensors, WeightsTruncated, WeightsDamaged: No
            file of this format, or not whole.
        WrongModel: A whole file, but of another model.
        MissingKeys, ExtraKeys, WrongShapes, UnknownKeys: Not exactly the tensors of such a VAE.
        WrongNumbers: Tensors of integers.

    Memory: the model, one tensor of the file, and for the fast variant the tables of one layer.
    """
    with SafetensorsFile(path) as file:
        config = config or vae_config_of(file)
        plain = _checked(file, config)
        if form == "plain":
            load_module(plain, file, VAE_KEYS, device=device, dtype=dtype)
            return plain.eval()
        weights = FileWeights(file, VAE_KEYS)
        switches = switches or VaeSwitches()
        return FastVae(config, weights, device=device, dtype=dtype, switches=switches)


def check_vae(path: Path) -> None:
    """Checks that a file has exactly the tensors of such a VAE; reads none of their values.

    Raises:
        WeightsError: As `load_vae`.
    """
    with SafetensorsFile(path) as file:
        _checked(file, vae_config_of(file))


def _checked(file: SafetensorsFile, config: VaeConfig) -> SeedVr2Vae:
    return on_meta(lambda: SeedVr2Vae(config), file, FileWeights(file, VAE_KEYS).shapes)


def vae_config_of(file: SafetensorsFile) -> VaeConfig:
    """The configuration of the VAE in an open file.

    Raises:
        WrongModel: It holds another model.
        UnknownKeys: Its sizes are impossible.
    """
    content = recognise(file.shapes)
    if content != SEEDVR2_VAE:
        raise WrongModel(
            "not-seedvr2-vae",
            name=file.path.name,
            path=str(file.path),
            content=content_message(content),
        )
    return infer_vae_config(file.shapes, file.metadata)
