"""Damaged files of community models: each is recognised, measured and, if still whole, run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from engine.models import user_files
from tests.helpers.community import loaded, write_network
from tests.trials.faults.weights import Weights

_NETWORKS = ("Compact", "ESRGAN", "SPAN", "SwinIR", "NAFNet", "RCAN")
SOURCES: dict[str, tuple[str, Callable[[Path], object]]] = {
    f"{name}, {suffix}": (f"{name}{suffix}", partial(write_network, architecture=name))
    for name in _NETWORKS
    for suffix in (".safetensors", ".pth")
}


class CommunityModels(Weights):
    """A mutant of each file in turn."""

    name = "community"
    rows = tuple(SOURCES)
    usual = 3_000
    memory = 600 * 2**20
    limit_s = 60.0
    sources = SOURCES

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        _run(folder / SOURCES[self.rows[0]][0])  # loads what all cases need

    def uses(self, row: str) -> tuple[Callable[[Path], object], ...]:
        """As an import, and as a job of one small frame."""
        return user_files.describe, _run


def _run(path: Path) -> None:
    loaded(path).upscaler.upscale(torch.rand(1, 3, 32, 40))
