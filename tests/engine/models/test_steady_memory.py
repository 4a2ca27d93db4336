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

from engine.hardware.out_of_memory import free_memory
from engine.models.lite.files import WeightsFile
from engine.models.lite.upscaler import upscaler
from engine.models.seedvr2.dit.load import load_dit
from tests.helpers.community import loaded, write_network
from tests.helpers.extended import rest_extended
from tests.helpers.memory import Allocations
from tests.helpers.seedvr2 import (
    random_frames,
    random_inputs,
    tiny_dit_config,
    write_dit,
)
from tests.helpers.vaes import SPAN, TILED, VaeRow

Push = Callable[[int], Any]  # takes slice k, the first one apart
WARM_UP, WATCHED = 2, 2  # rounds


class Maker:
    """Makes streams of very small models on one device."""

    def __init__(self, device: str, folder: Path) -> None:
        self._device, self._folder = device, folder

    def vae(self, row: VaeRow, side: str, options: dict[str, Any]) -> Push:
        plain = row.plain(row.streamed, dtype=torch.float32)
        vae = row.fast(plain, dtype=torch.float32, device=self._device)
        frame, each = row.tiled[side].frame, row.streamed.temporal_factor
        make = row.encode if side == "encode" else row.decode
        push = make(vae, frame, **options)

        def pushed(k: int) -> Any:
            if side == "encode":
                return push(
                    self._numbers(each + (k == 0), 3, frame.height, frame.width), last=False
                )
            places = (n // row.streamed.spatial_factor for n in (frame.height, frame.width))
            shape = (1, row.streamed.latent_channels, 1 + (k == 0), *places)
            return list(push(self._numbers(*shape), last=False))

        return pushed

    def transformer(self) -> Push:
        config = tiny_dit_config()
        path = self._folder / "dit.safetensors"
        write_dit(path, config)
        device = torch.device(self._device)
        dit = load_dit(path, form="fast", device=device, dtype=torch.float32)
        latent, text = (x.to(device) for x in random_inputs(config, dtype=torch.float32))
        return lambda _: dit(latent, text, 1000.0)

    def lite(self) -> Push:
        model = upscaler(WeightsFile("lite-plus", 2, "faithful"), self._device)
        return lambda _: model.upscale(self._numbers(4, 3, 48, 64))

    def community(self) -> Push:
        if find_spec("spandrel") is None:  # its own import fails here: it wants torchvision
            pytest.skip("spandrel is not installed")
        model = loaded(write_network(self._folder / "tiny.pth"), self._device).upscaler
        return lambda _: model.upscale(self._numbers(4, 3, 48, 64))

    def _numbers(self, *shape: int) -> Tensor:
        return random_frames(*shape, dtype=torch.float32).to(self._device)


# Work, and slices after which it comes again.
STREAMS: dict[str, tuple[VaeRow, str, dict[str, Any], int]] = {
    f"{row.name} {side}{' in tiles' * bool(options)}": (row, side, options, SPAN if options else 1)
    for row, side in TILED
    for options in ({}, row.tiled[side].options)
    if options or side != "decode whole"
}
USUAL = ("seedvr2 encode", "seedvr2 decode")
USUAL += ("wan 2x encode", "wan 2x decode", "wan 2x decode in tiles")
CASES = [*rest_extended(STREAMS, *USUAL), "transformer", "lite", "community"]
EACH = pytest.mark.parametrize("what", CASES)


def made(maker: Maker, what: str) -> tuple[Push, int]:
    """Work, and slices after which it comes again."""
    if what in STREAMS:
        *about, period = STREAMS[what]
        return maker.vae(*about), period
    push: Push = getattr(maker, what)()
    return push, 1


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
def test_every_slice_takes_the_same_memory(what: str, tmp_path: Path) -> None:
    assert_steady(*made(Maker("cpu", tmp_path), what))


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
def test_the_driver_is_asked_for_nothing_in_steady_state(what: str, tmp_path: Path) -> None:
    push, period = made(Maker("cuda", tmp_path), what)
    push_all(push, range(WARM_UP_OF_GPU * period))
    before = torch.cuda.memory_stats()["num_device_alloc"]
    push_all(push, range(WARM_UP_OF_GPU * period, (WARM_UP_OF_GPU + WATCHED) * period))
    assert torch.cuda.memory_stats()["num_device_alloc"] == before


@pytest.mark.gpu
@EACH
def test_a_gpu_has_nothing_left_of_a_model_that_is_gone(what: str, tmp_path: Path) -> None:
    held = []
    for _ in range(2):  # the first one leaves whatever libraries keep for the whole program
        push, period = made(Maker("cuda", tmp_path), what)
        push_all(push, range(period))
        del push
        free_memory()
        held.append(torch.cuda.memory_allocated())
    assert held[0] == held[1]


def test_work_that_grows_is_seen() -> None:
    kept: list[Tensor] = []
    with pytest.raises(AssertionError):
        assert_steady(lambda k: kept.append(torch.empty(1024 * (k + 1))), 1)
