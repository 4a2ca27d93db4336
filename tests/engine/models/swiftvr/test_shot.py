"""A shot of SwiftVR: the same however its frames come in and wherever it begins again."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.core.errors import NumericOverflow
from engine.models.swiftvr.chunks import FROM_START, STEP, Chunk, ChunkGrid, Restart, latents_of
from engine.models.swiftvr.load import load_reae, load_swift_dit
from engine.models.swiftvr.shot import Shot
from engine.models.upscalers import Restored
from engine.ops.conv.causal_conv import Carry
from tests.helpers.extended import rest_extended
from tests.helpers.seedvr2 import random_frames
from tests.helpers.swiftvr import PROMPT, TINY_DIT, write_dit, write_reae

GRID = ChunkGrid(2)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    folder: Path = tmp_path_factory.mktemp("swiftvr")
    write_reae(folder / "reae.safetensors")
    write_dit(folder / "dit.safetensors")
    return (
        load_reae(folder / "reae.safetensors", form="fast"),
        load_swift_dit(folder / "dit.safetensors", folder / PROMPT),
    )


@pytest.fixture(scope="module")
def whole(models: tuple[Any, Any]) -> Tensor:
    """A shot of 90 frames, restored."""
    return restored(models, clip(90))[1]


@cache
def clip(frames: int) -> Tensor:
    return (random_frames(1, 3, frames, 32, 64)[0].movedim(0, 1).float() + 1) / 2


def restored(
    models: tuple[Any, Any],
    frames: Tensor,
    pieces: Sequence[int] = (99,),
    restart: Restart = FROM_START,
) -> tuple[list[int], Tensor]:
    """Numbers of the frames that come out, and the frames."""
    shot = Shot(*models, GRID, restart)
    parts: list[Restored] = []
    start, number = shot.first, 0
    while start < len(frames):
        end = min(len(frames), start + pieces[number % len(pieces)])
        parts += shot.push(frames[start:end], last=end == len(frames))
        start, number = end, number + 1
    numbers = [one.first + place for one in parts for place in range(len(one.frames))]
    return numbers, torch.cat([one.frames for one in parts])


@given(latents=st.integers(1, 60), length=st.integers(1, 9))
def test_chunks_have_each_latent_once_and_the_last_is_as_long_as_the_first(
    latents: int, length: int
) -> None:
    grid, found = ChunkGrid(length), list[Chunk]()
    for count in range(1, latents + 1):
        while (chunk := grid.ready(len(found), count, ended=count == latents)) is not None:
            found.append(chunk)
            assert grid.holding(chunk.start) == grid.holding(chunk.stop - 1) == len(found) - 1
    assert [number for one in found for number in range(one.start, one.stop)] == [*range(latents)]
    assert found == [grid.ready(number, latents, ended=True) for number in range(len(found))], (
        "chunks depend on how latents come in"
    )
    for one in found[:-1]:
        assert (one.front, one.zeros) == (one.start, 0)
        assert one.stop - one.start == length + (one.start == 0)
    last = found[-1]
    assert last.stop - last.front + last.zeros == length + 1
    assert last.zeros == 0 or last.front == 0


@pytest.mark.parametrize("frames", rest_extended((1, 4, 5, 12, 13, 16, 21, 30), 1, 13, 16))
def test_frames_may_come_in_as_they_like(models: tuple[Any, Any], frames: int) -> None:
    """All come out, in order: those that are no 4n + 1 too."""
    numbers, found = restored(models, clip(frames))
    assert numbers == list(range(frames))
    assert found.shape == (frames, 3, 32, 64)
    for pieces in ((1,), (5, 2)):
        others, other = restored(models, clip(frames), pieces)
        assert others == numbers
        assert torch.equal(other, found)


@pytest.mark.parametrize("frame", rest_extended(range(1, 90, 8), 49, 89))
def test_a_shot_that_begins_again_gives_the_same_frames(
    models: tuple[Any, Any], whole: Tensor, frame: int
) -> None:
    """Bit by bit, in the last chunk and before it, with much or nothing before it left out."""
    restart = GRID.restart(frame)
    assert (restart.encode_from > 0) == (frame >= 73)
    numbers, found = restored(models, clip(90), restart=restart)
    assert numbers == list(range(frame, 90))
    assert torch.equal(found, whole[frame:])


@settings(deadline=None)
@given(frame=st.integers(0, 400), length=st.integers(1, 9))
def test_a_restart_looks_back_far_enough_and_not_further_than_it_must(
    frame: int, length: int
) -> None:
    grid = ChunkGrid(length)
    at = grid.restart(frame)
    wanted = (frame + 3) // STEP
    assert at.decode_from == max(0, wanted - 8)
    assert grid.start(at.chunk) <= at.decode_from < grid.start(at.chunk + 1)
    assert at.keep_from == max(0, grid.start(at.chunk) - length)
    assert STEP * at.encode_from <= max(0, STEP * at.keep_from - 30)
    assert wanted - at.encode_from <= 8 + 2 * length + 8


class Still:
    """Models that keep count of the latents that exist."""

    def __init__(self) -> None:
        self.alive: weakref.WeakSet[Tensor] = weakref.WeakSet()
        self.proj_out = torch.nn.Linear(1, 1)
        self.fault = ""

    def encode_slice(self, frames: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        latent = torch.full((1, TINY_DIT.channels, 1, 2, 2), self._value("encoder"))
        self.alive.add(latent)
        return latent, carry.begin().done()

    def decode_slice(self, latent: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        carry = carry.begin()
        frames = torch.full((1, 3, 1 if carry.first else STEP, 32, 32), self._value("decoder"))
        return frames, carry.done()

    def __call__(self, latents: Tensor) -> Tensor:
        return torch.full_like(latents, self._value("transformer"))

    def release(self) -> None:
        pass

    def _value(self, part: str) -> float:
        return float("inf") if part == self.fault else 0.0


def _run(models: Any, frames: int) -> Iterator[Restored]:
    shot = Shot(models, models, GRID)
    for number in range(frames):
        yield from shot.push(torch.zeros(1, 3, 32, 32), last=number == frames - 1)


def test_latents_in_memory_do_not_grow_with_the_shot() -> None:
    models, most = Still(), 0
    for _ in _run(models, 300):
        most = max(most, len(models.alive))
    assert 0 < most <= 2 * GRID.length + 2


@pytest.mark.parametrize("part", ["encoder", "transformer", "decoder"])
def test_values_that_are_not_finite_name_their_part(part: str) -> None:
    models = Still()
    models.fault = part
    with pytest.raises(NumericOverflow) as caught:
        list(_run(models, 30))
    assert caught.value.case == part


def test_what_is_done_is_told_and_can_be_stopped_between_layers(models: tuple[Any, Any]) -> None:
    reports: list[tuple[str, float]] = []

    def advance(stage: str, frames: float) -> None:
        reports.append((stage, frames))
        if len(reports) == 20:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        list(Shot(*models, GRID, advance=advance).push(clip(30), last=True))
    layers = reports.count(("transformer", 0))
    assert layers >= 2 * TINY_DIT.layers
    frames = {stage: sum(n for of, n in reports if of == stage) for stage, _ in reports}
    assert frames["encode"] >= frames["transformer"] >= frames["decode"] > 0


def test_a_shot_has_as_many_latents_as_its_frames_need() -> None:
    assert [latents_of(frames) for frames in (1, 2, 5, 6, 29)] == [1, 2, 2, 3, 8]
    with pytest.raises(ValueError, match="0 latents"):
        ChunkGrid(0)
