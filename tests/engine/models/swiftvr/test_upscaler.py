"""SwiftVR as the pipeline uses it: frames before and after, any feeding, any beginning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.core.geometry import Size
from engine.models.swiftvr.family import FAMILY
from engine.models.swiftvr.files import files_of
from engine.models.swiftvr.plan import SwiftVrPlan, padded_size
from engine.models.swiftvr.upscaler import SwiftVr, placed
from engine.models.upscalers import DecodedTile
from engine.ops.resize import resize
from tests.helpers.extended import extended, rest_extended
from tests.helpers.memory import Allocations
from tests.helpers.seedvr2 import random_frames
from tests.helpers.swiftvr import write_swiftvr
from tests.reference.swiftvr import prepared

SIZE = Size(48, 40)
FRAMES, SHOT = 130, 1000  # of the shot, whose first frame in the job has that number


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> SwiftVrPlan:
    found = files_of("swiftvr", write_swiftvr(tmp_path_factory.mktemp("m")).settings())
    return SwiftVrPlan(
        dit=found.dit, vae=found.vae, text=found.text, size=SIZE, padded=padded_size(SIZE)
    )


@pytest.fixture(scope="module")
def model(plan: SwiftVrPlan) -> Any:
    return FAMILY.load_shots(plan)


@pytest.fixture(scope="module")
def whole(model: SwiftVr) -> Tensor:
    return restored(model, 0)


@cache
def clip() -> Tensor:
    return (random_frames(FRAMES, 3, SIZE.height // 2, SIZE.width // 2).float() + 1) / 2


def restored(
    model: SwiftVr, wanted: int, pieces: Sequence[int] = (5, 4, 4, 4), stop: int | None = None
) -> Tensor:
    """Finished frames from one on, fed in pieces; the last size is used for all that follow."""
    first = model.first_needed(SHOT, SHOT + wanted) - SHOT
    end = None if stop is None else SHOT + stop
    running = model.shot(SHOT, SHOT + wanted, lambda _: None, end)
    found, numbers, number = [], list[int](), 0
    with torch.inference_mode():
        while first < FRAMES:
            count = pieces[min(number, len(pieces) - 1)]
            given = clip()[first : first + count]
            first, number = first + len(given), number + 1
            for part in running.push(given, last=first == FRAMES):
                at = part.first - SHOT
                numbers += range(at, at + len(part.frames))
                found.append(model.finished(part.frames, clip()[at : at + len(part.frames)]))
    assert numbers == list(range(numbers[0], FRAMES))
    return torch.cat(found)[wanted - numbers[0] :]


@pytest.mark.parametrize("pieces", [(1,), *extended(((7, 30, 2),)), (FRAMES,)])
def test_frames_do_not_depend_on_how_they_are_fed(
    model: SwiftVr, whole: Tensor, pieces: tuple[int, ...]
) -> None:
    assert whole.shape == (FRAMES, 3, SIZE.height, SIZE.width)
    assert torch.equal(restored(model, 0, pieces), whole)


@pytest.mark.parametrize("wanted", rest_extended((1, 24, 29, 77, 100, 128), 77, 128))
def test_frames_do_not_depend_on_where_a_job_goes_on(
    model: SwiftVr, whole: Tensor, wanted: int
) -> None:
    assert (model.first_needed(SHOT, SHOT + wanted) > SHOT) == (wanted > 100)
    assert torch.equal(restored(model, wanted), whole[wanted:])


@pytest.mark.extended
def test_a_job_that_goes_on_corrects_colours_of_whole_latents(
    plan: SwiftVrPlan, model: SwiftVr
) -> None:
    pooled = SwiftVr(replace(plan, colour="lab"), model._vae, model._dit)
    assert torch.equal(restored(pooled, 128), restored(pooled, 0)[128:])


@pytest.mark.parametrize("factor", [1, 2])
def test_frames_are_prepared_as_the_model_was_trained(factor: int) -> None:
    frames = (torch.rand(2, 16, 24, 3, generator=torch.Generator().manual_seed(1)) * 255).byte()
    size = Size(24 * factor, 16 * factor)
    found = placed(frames.movedim(-1, 1) / 255, size, padded_size(size), torch.float32)
    assert found.shape == (2, 3, 32, 32 * factor if factor == 1 else 64)
    torch.testing.assert_close(found, prepared(frames, size))


def test_each_latent_is_shown(model: SwiftVr) -> None:
    seen: list[DecodedTile] = []
    running = model.shot(SHOT, SHOT, seen.append)
    with torch.inference_mode():
        parts = list(running.push(clip()[:6], last=True))
    assert [one.frame - SHOT for one in seen] == [0, 4, 5]
    assert [one.picture.shape for one in seen] == [(3, 64, 64)] * 3
    torch.testing.assert_close(seen[-1].picture, parts[-1].frames[-1])


@pytest.mark.parametrize("colour", ["lab", "two-scale"])
def test_colours_of_a_latent_are_corrected_together_where_the_method_asks_for_it(
    plan: SwiftVrPlan, model: SwiftVr, colour: str
) -> None:
    made = SwiftVr(replace(plan, colour=colour), model._vae, model._dit)
    assert made.is_pooled == (colour == "lab")
    with torch.inference_mode():
        parts = list(made.shot(0, 0, lambda _: None).push(clip()[:6], last=True))
    assert [len(one.frames) for one in parts] == ([1, 4, 1] if colour == "lab" else [1] * 6)


def test_what_the_source_has_beyond_black_and_white_is_put_back(plan: SwiftVrPlan) -> None:
    nothing: Any = None
    model = SwiftVr(replace(plan, colour="none"), nothing, nothing)
    padded, source = torch.zeros(1, 3, 64, 64), torch.full((1, 3, 20, 24), 1.25)
    result = model.finished(padded, source)
    torch.testing.assert_close(result, torch.full((1, 3, 40, 48), 0.75))
    weak = SwiftVr(replace(plan, colour="none", strength=25), nothing, nothing)
    dark = torch.zeros(1, 3, 20, 24)
    torch.testing.assert_close(weak.finished(padded, dark), 0.125 + resize(dark, SIZE))


@pytest.mark.slow
def test_memory_does_not_grow_with_the_shot(model: SwiftVr) -> None:
    def taken(frames: int) -> int:
        running = model.shot(0, 0, lambda _: None)
        with torch.inference_mode(), Allocations() as found:
            for first in range(0, frames, 4):
                given = clip()[: min(4, frames - first)]
                for part in running.push(given, last=first + 4 >= frames):
                    model.finished(part.frames, given[:1])
                    del part
        return found.peak_bytes

    taken(9)  # the first one makes the clip
    short, long = taken(300), taken(3000)
    assert short <= long <= 1.001 * short
