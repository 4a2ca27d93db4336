"""The forms of the SeedVR2 transformer, and how a file becomes one of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from engine.models.load import load_module
from engine.models.seedvr2.dit import SeedVr2Dit
from engine.models.seedvr2.dit_config import DitConfig, infer_dit_config
from engine.models.seedvr2.dit_fast import FastDit
from engine.models.seedvr2.keymap import DIT_KEYS
from engine.weights.safetensors_file import SafetensorsFile
from tests.golden import files


def _plain(path: Path, config: DitConfig) -> nn.Module:
    return _loaded(path, config, SeedVr2Dit)


def _fast(path: Path, config: DitConfig) -> nn.Module:
    return _loaded(path, config, FastDit)


def _loaded(path: Path, config: DitConfig, form: type[SeedVr2Dit]) -> nn.Module:
    with torch.device("meta"):
        dit = form(config)
    with SafetensorsFile(path) as file:
        load_module(dit, file, DIT_KEYS)
    return dit.eval()


FORMS: dict[str, Callable[[Path, DitConfig], nn.Module]] = {"plain": _plain, "fast": _fast}


def load_form(path: Path, form: str) -> nn.Module:
    """A transformer in float32 on the CPU; what shapes do not tell, the files beside it may."""
    with SafetensorsFile(path) as file:
        config = infer_dit_config(file.shapes, files.metadata_of_model(path))
    return FORMS[form](path, config)
