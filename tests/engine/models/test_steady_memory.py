"""In steady state every slice takes and gives back the same memory as the one before it.

A GPU's allocator keeps what it was given back: equal sizes in equal order come from there, and
the driver is asked for nothing more.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.core.geometry import Size
from engine.hardware.out_of_memory import free_memory
from engine.models.lite.upscaler import upscaler
from engine.models.seedvr2.dit.load import load_dit
from engine.models.seedvr2.vae import streams as seedvr2_streams
from engine.models.seedvr2.vae.fast import FastVae
from engine.models.seedvr2.vae.tiling import Tiling
from engine.models.wan.vae import streams
from engine.models.wan.vae.fast import FastWanVae
from engine.models.wan.vae.split import LATENTS_PER_VISIT
from tests.helpers.community import loaded, write_network
from tests.helpers.extended import extended
from tests.helpers.memory import Allocations
from tests.helpers.seedvr2 import (
    random_frames,
    random_inputs,
    tiny_config,
    tiny_dit_config,
    tiny_vae,
    write_dit,
)
from tests.helpers.wan import tiny_wan, tiny_wan_config

Push = Callable[[int], Any]  # takes slice k, the first one apart
WARM_UP, WATCHED = 2, 2  # rounds
SLICES_AT_A_TIME = 8  # that a tile of SeedVR2's encoder is given


class Maker:
    """Makes streams of very small models on one device."""

    def __init__(self, device: str, folder: Path) -> None:
        self._device, self._folder = device, folder

    def seedvr2_encode(self, tile: Size | None = None) -> Push:
        vae, frame = self._seedvr2(), Size(96, 64)
        stream = seedvr2_streams.SeedVr2EncodeStream(vae, frame, tile and Tiling(tile=tile))
        return lambda k: stream.push(self._numbers(4 + (k == 0), 3, 64, 96), last=False)

    def seedvr2_decode(self, tile: Size | None = None) -> Push:
        vae, frame = self._seedvr2(), Size(160, 96)
        tiling = tile and Tiling(tile=tile, blend=8)
        stream = seedvr2_streams.SeedVr2DecodeStream(vae, frame, tiling, lambda _: None)
        channels = vae.config.latent_channels
        return lambda k: list(
            stream.push(self._numbers(1 + (k == 0), 12, 20, channels), last=False)
        )

    def wan_encode(self, tile: Size | None = None) -> Push:
        streaming = streams.Streaming(tile=tile)
        stream = streams.WanEncodeStream(self._wan(), Size(192, 96), streaming)
        return lambda k: stream.push(self._numbers(4 + (k == 0), 3, 96, 192), last=False)

    def wan_decode(self, tile: Size | None = None) -> Push:
        vae, streaming = self._wan(), streams.Streaming(tile=tile)
        stream = streams.WanDecodeStream(vae, Size(192, 96), streaming, lambda _: None)
        channels = vae.config.latent_channels
        return lambda k: list(
            stream.push(self._numbers(1, channels, 1 + (k == 0), 12, 24), last=False)
        )

    def transformer(self) -> Push:
        config = tiny_dit_config()
        path = self._folder / "dit.safetensors"
        write_dit(path, config)
        device = torch.device(self._device)
        dit = load_dit(path, form="fast", device=device, dtype=torch.float32)
        latent, text = (x.to(device) for x in random_inputs(config, dtype=torch.float32))
        return lambda _: dit(latent, text, 1000.0)

    def lite(self) -> Push:
        model = upscaler(2, self._device)
        return lambda _: model.upscale(self._numbers(4, 3, 48, 64))

    def community(self) -> Push:
        if find_spec("spandrel") is None:  # its own import fails here: it wants torchvision
            pytest.skip("spandrel is not installed")
        model = loaded(write_network(self._folder / "tiny.pth"), self._device).upscaler
        return lambda _: model.upscale(self._numbers(4, 3, 48, 64))

    def _numbers(self, *shape: int) -> Tensor:
        return random_frames(*shape, dtype=torch.float32).to(self._device)

    def _seedvr2(self) -> FastVae:
        plain = tiny_vae(tiny_config(), dtype=torch.float32)
        return FastVae(plain.config, plain.state_dict(), device=self._device)

    def _wan(self) -> FastWanVae:
        config = tiny_wan_config("2x", dim=4, dec_dim=4, residual_blocks=1)
        return FastWanVae(config, tiny_wan(config).state_dict(), device=self._device)


# what, its tile, slices after which the work comes again


CASES: list[Any] = [
    ("seedvr2_encode", None, 1),
    *extended(("seedvr2_encode", Size(64, 64), SLICES_AT_A_TIME)),
    ("seedvr2_decode", None, 1),
    ("seedvr2_decode", Size(96, 96), 1),
    ("wan_encode", None, 1),
    *extended(("wan_encode", Size(144, 96), LATENTS_PER_VISIT)),
    ("wan_decode", None, 1),
    ("wan_decode", Size(288, 192), LATENTS_PER_VISIT),
    ("transformer", None, 1),
    ("lite", None, 1),
    ("community", None, 1),
]
EACH = pytest.mark.parametrize(("what", "tile", "period"), CASES)


def made(maker: Maker, what: str, tile: Size | None) -> Push:
    function = getattr(maker, what)
    push: Push = function() if tile is None else function(tile)
    return push


def taken(push: Push, slices: range) -> list[int]:
    """Sizes of everything that some slices take, in order."""
    with torch.inference_mode(), Allocations() as found:
        for k in slices:
            push(k)
    return found.taken


def assert_steady(push: Push, period: int) -> None:
    begins = range(0, WARM_UP * period)
    assert taken(push, begins), "nothing was measured"
    rounds = [
        taken(push, range(start, start + period))
        for start in range(WARM_UP * period, (WARM_UP + WATCHED) * period, period)
    ]
    assert rounds[0]
    for later in rounds[1:]:
        assert later == rounds[0]


@EACH
def test_every_slice_takes_the_same_memory(
    what: str, tile: Size | None, period: int, tmp_path: Path
) -> None:
    assert_steady(made(Maker("cpu", tmp_path), what, tile), period)


# On a GPU cuDNN tries out methods in the first round of each shape, after which torch's cache is
# empty.
WARM_UP_OF_GPU = WARM_UP + 1


def push_all(push: Push, slices: range) -> None:
    with torch.inference_mode():
        for k in slices:
            push(k)
    torch.cuda.synchronize()


@pytest.mark.gpu
@EACH
def test_the_driver_is_asked_for_nothing_in_steady_state(
    what: str, tile: Size | None, period: int, tmp_path: Path
) -> None:
    push = made(Maker("cuda", tmp_path), what, tile)
    push_all(push, range(WARM_UP_OF_GPU * period))
    before = torch.cuda.memory_stats()["num_device_alloc"]
    push_all(push, range(WARM_UP_OF_GPU * period, (WARM_UP_OF_GPU + WATCHED) * period))
    assert torch.cuda.memory_stats()["num_device_alloc"] == before


@pytest.mark.gpu
@EACH
def test_a_gpu_has_nothing_left_of_a_model_that_is_gone(
    what: str, tile: Size | None, period: int, tmp_path: Path
) -> None:
    held = []
    for _ in range(2):  # the first one leaves whatever libraries keep for the whole program
        push_all(made(Maker("cuda", tmp_path), what, tile), range(period))
        free_memory()
        held.append(torch.cuda.memory_allocated())
    assert held[0] == held[1]


def test_work_that_grows_is_seen() -> None:
    kept: list[Tensor] = []
    with pytest.raises(AssertionError):
        assert_steady(lambda k: kept.append(torch.empty(1024 * (k + 1))), 1)
