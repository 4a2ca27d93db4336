"""Bytes of passes and launches that plans count with, against those of the pretended GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.core.geometry import Size
from engine.models.seedvr2.dit.config import DIT_3B, DIT_7B, DitConfig
from engine.models.seedvr2.dit.cost import launches, passed_bytes
from engine.models.seedvr2.dit.fast import FastDit
from engine.models.video_vae.measured_memory import MeasuredVae
from engine.models.video_vae.vae_use import Piece
from engine.ops.conv.causal_conv import Carry
from tests.helpers.extended import rest_extended
from tests.pretended_gpu.gpu import PretendedGpu, Record
from tests.pretended_gpu.machine import pretended_gpu
from tests.pretended_gpu.published import DIT, GPU, TEXT, VAE
from tools.memory_table import VAES

pytestmark = pytest.mark.pretended_gpu

SIZE = Size(1280, 704)
# What multiplies; all other operators and kernels pass over values.
MULTIPLYING = ("convolution", "addmm", "mm", "bmm", "kernel attend")


def passed(gpu: PretendedGpu) -> int:
    """Bytes that passes have read and written."""
    touched = gpu.record.touched.items()
    return sum(n for name, n in touched if name not in MULTIPLYING and "attention" not in name)


def given(piece: Piece, steps: int) -> Tensor:
    shape = SIZE.height // piece.factor, SIZE.width // piece.factor
    about: dict[str, Any] = {"device": "cuda", "dtype": torch.float16}
    if piece.is_clip:
        return torch.empty(1, piece.channels, steps, *shape, **about)
    last = torch.channels_last
    return torch.empty(steps, piece.channels, *shape, memory_format=last, **about)


def counted(code: MeasuredVae, config: Any) -> Iterator[tuple[str, list[int]]]:
    """Each call, and bytes of a clip of one frame, of a first slice, and of a later one."""
    with torch.device("meta"):
        weights = code.loader.plain(config).state_dict()
    with pretended_gpu(**GPU) as gpu:
        vae = code.loader.fast(config, weights, device="cuda", dtype=torch.float16, switches=VAE)
        for call, piece in code.pieces(config, 4).items():
            found = []
            for steps in ((1,), (piece.first, piece.later)) * 2:  # the first time with trials
                carry = Carry()
                for count in steps:
                    frames = given(piece, count)
                    gpu.record = Record(convolutions=gpu.record.convolutions)
                    carry = carry.handed_over(last=len(steps) == 1)
                    _, carry = getattr(vae, call)(frames, carry)
                    found.append(passed(gpu))
            yield call, found[3:]


@pytest.mark.parametrize("name", rest_extended(VAES, "seedvr2", "wan22"))
def test_passes_of_a_vae_move_what_is_planned(name: str) -> None:
    """On a failure write the new figures into `_PASSES` of the family's `vae_memory`."""
    code, config = VAES[name].vae, VAES[name].config
    for call, found in counted(code, config):
        planned = code.passes(config)[call]
        assert [one / SIZE.pixels for one in found] == pytest.approx(planned, rel=0.05), call


def forward(config: DitConfig, grid: tuple[int, int, int]) -> tuple[int, int]:
    """Bytes of the passes of a forward, and its launches."""
    with pretended_gpu(**GPU) as gpu:
        with torch.device("meta"):
            dit: nn.Module = FastDit(config, DIT)
        weights = {
            name: torch.empty(one.shape, dtype=torch.float16, device="cuda")
            if one.dtype == torch.float32
            else torch.empty(one.shape, dtype=one.dtype, device="cuda")
            for name, one in dit.state_dict().items()
        }
        dit.load_state_dict(weights, assign=True)
        dit.requires_grad_(False)
        dit.finish_loading()
        about: dict[str, Any] = {"device": "cuda", "dtype": torch.float16}
        latent = torch.empty(*grid, config.in_channels, **about)
        text = torch.empty(TEXT, config.text_in_dim, **about)
        dit(latent, text, 1000.0)
        gpu.record = Record()
        dit(latent, text, 1000.0)
        return passed(gpu), sum(gpu.record.launches.values())


@pytest.mark.parametrize("config", [DIT_3B, DIT_7B], ids=["3B", "7B"])
def test_passes_of_a_transformer_move_what_is_planned(config: DitConfig) -> None:
    grid = (2, 90, 160)
    moved, launched = forward(config, grid)
    assert passed_bytes(config, grid, "float16") == pytest.approx(moved, rel=0.05)
    assert 0.7 * launched < launches(config, rounds=False) < 1.5 * launched
