from dataclasses import replace

import pytest
import torch

from engine.core.control import Control
from engine.core.errors import Cancelled
from engine.core.geometry import Size
from engine.models.lite.plan import LitePlan
from engine.pipeline.context import JobContext
from engine.pipeline.stages.upscale import Upscale
from engine.protocol.events import Event, PlanDowngraded, TileDone
from tests.helpers.plans import a_media, a_plan


class Doubler:
    """Repeats every pixel; refuses calls with more than `most` pixels; sees `halo` px around."""

    scale = 2
    halo = 3

    def __init__(self, most: int = 10**9) -> None:
        self.most = most
        self.calls: list[tuple[int, ...]] = []

    def upscale(self, frames: torch.Tensor) -> torch.Tensor:
        self.calls.append(tuple(frames.shape))
        if frames[0, 0].numel() * len(frames) > self.most:
            raise torch.OutOfMemoryError("refused")
        return frames.repeat_interleave(2, -1).repeat_interleave(2, -2)


class Ears:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)


def context(tile: Size, *, clip: int = 1, overlap: int = 16, rotation: int = 0) -> JobContext:
    work = LitePlan(
        weights="lite_x2_faithful.safetensors",
        frame=Size(200, 120),
        tile=tile,
        overlap=overlap,
        clip_frames=clip,
    )
    plan = replace(a_plan(), source_size=Size(200, 120), work=work)
    return JobContext(
        job_id="a",
        media=a_media(rotation=rotation),
        plan=plan,
        control=Control(),
        events=Ears(),
    )


def test_tiles_give_the_same_as_the_whole_frame():
    frames = torch.rand(2, 3, 120, 200)
    tiled = Upscale(Doubler(), context(Size(80, 64))).run(frames, 0)
    whole = Upscale(Doubler(), context(Size(200, 120))).run(frames, 0)
    torch.testing.assert_close(tiled, whole)


def test_every_tile_is_told_with_its_place_and_a_picture():
    job = context(Size(80, 64))
    Upscale(Doubler(), job).run(torch.rand(1, 3, 120, 200), 7)
    tiles = [event for event in job.events.events if isinstance(event, TileDone)]
    assert [t.tile for t in tiles] == list(range(len(tiles)))
    assert all(t.tiles == len(tiles) and t.frame == 7 for t in tiles)
    assert all(t.canvas == Size(400, 240) and t.picture is not None for t in tiles)
    assert max(t.box.right for t in tiles) == 400


def test_boxes_lie_in_the_picture_as_seen():
    job = context(Size(80, 64), rotation=90)
    Upscale(Doubler(), job).run(torch.rand(1, 3, 120, 200), 0)
    tiles = [event for event in job.events.events if isinstance(event, TileDone)]
    assert tiles[0].canvas == Size(240, 400)
    assert (tiles[0].box.right, tiles[0].box.y) == (240, 0)  # the left top corner turned right
    assert tiles[0].picture.size == Size(128, 160)


def test_without_memory_the_same_clip_is_made_in_smaller_pieces():
    frames = torch.rand(4, 3, 120, 200)
    job = context(Size(200, 120), clip=4)
    model = Doubler(most=7000)
    made = Upscale(model, job).run(frames, 0)
    torch.testing.assert_close(made, Upscale(Doubler(), context(Size(200, 120))).run(frames, 0))
    downgrades = [event for event in job.events.events if isinstance(event, PlanDowngraded)]
    assert downgrades
    assert job.plan.work.clip_frames == 1
    assert job.plan.work.tile.pixels <= 7000
    assert downgrades[-1].plan == job.plan


def test_no_memory_at_all_is_for_others_to_answer():
    job = context(Size(200, 120))
    with pytest.raises(torch.OutOfMemoryError):
        Upscale(Doubler(most=10), job).run(torch.rand(1, 3, 120, 200), 0)
    assert job.plan.work.tile == Size(64, 64)


def test_a_smaller_plan_says_what_is_smaller():
    job = context(Size(200, 120), clip=2)
    Upscale(Doubler(most=24000), job).run(torch.rand(2, 3, 120, 200), 0)
    (less,) = [event for event in job.events.events if isinstance(event, PlanDowngraded)]
    assert less.notice is not None
    assert less.notice.message == (
        "Memory ran out: the job goes on with 1 instead of 2 frames at a time."
    )


def test_other_errors_of_torch_are_not_taken_for_a_lack_of_memory():
    class Broken(Doubler):
        def upscale(self, frames: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes"):
        Upscale(Broken(), context(Size(200, 120))).run(torch.rand(1, 3, 120, 200), 0)


def test_cancel_acts_before_the_next_tile():
    job = context(Size(80, 64))
    model = Doubler()

    class Canceller(Ears):
        def emit(self, event: Event) -> None:
            job.control.cancel()

    job.events = Canceller()
    with pytest.raises(Cancelled):
        Upscale(model, job).run(torch.rand(1, 3, 120, 200), 0)
    assert len(model.calls) == 1


def test_no_model_passes_frames_on():
    frames = torch.rand(1, 3, 4, 4)
    assert Upscale(None, context(Size(4, 4))).run(frames, 0) is frames
