from dataclasses import replace
from typing import Any

import pytest
import torch

from engine.core.control import Control
from engine.core.errors import Cancelled
from engine.core.geometry import Size
from engine.hardware.out_of_memory import free_memory
from engine.hardware.torch_memory import within
from engine.models import registry
from engine.models.lite.plan import LitePlan
from engine.pipeline.context import JobContext
from engine.protocol.events import Event, PlanDowngraded, TileDone
from tests.helpers.plans import a_media, a_plan

stage = pytest.importorskip(
    "engine.pipeline.stages.upscale",
    reason="a machine for GPU tests may lack av",
    exc_type=ModuleNotFoundError,
)
Upscale = stage.Upscale


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


WEIGHTS = "lite_x2_faithful.safetensors"


def context(tile: Size, *, rotation: int = 0, **changes: Any) -> JobContext:
    work = LitePlan(weights=WEIGHTS, frame=Size(200, 120), tile=tile, overlap=16, clip_frames=1)
    work = replace(work, **changes)
    plan = replace(a_plan(), source_size=work.frame, work=work)
    media = a_media(rotation=rotation)
    return JobContext(job_id="a", media=media, plan=plan, control=Control(), events=Ears())


def test_tiles_give_the_same_as_the_whole_frame():
    frames = torch.rand(2, 3, 120, 200)
    tiled = Upscale(Doubler(), context(Size(80, 64))).run(frames, 0)
    whole = Upscale(Doubler(), context(Size(200, 120))).run(frames, 0)
    torch.testing.assert_close(tiled, whole)
    assert Upscale(None, context(Size(200, 120))).run(frames, 0) is frames, "without a model"


def test_every_tile_is_told_with_its_place_and_a_picture_as_seen():
    for rotation, canvas in ((0, Size(400, 240)), (90, Size(240, 400))):
        job = context(Size(80, 64), rotation=rotation)
        Upscale(Doubler(), job).run(torch.rand(1, 3, 120, 200), 7)
        tiles = [event for event in job.events.events if isinstance(event, TileDone)]
        assert [t.tile for t in tiles] == list(range(len(tiles)))
        assert all(t.tiles == len(tiles) and t.frame == 7 for t in tiles)
        assert all(t.canvas == canvas for t in tiles)
        assert max(t.box.right for t in tiles) == canvas.width
    assert (tiles[0].box.right, tiles[0].box.y) == (240, 0)  # the left top corner turned right
    assert tiles[0].picture.size == Size(128, 160)


def test_tiles_are_told_without_pictures_where_the_user_wants_none():
    job = context(Size(80, 64))
    job.pictures = False
    Upscale(Doubler(), job).run(torch.rand(1, 3, 120, 200), 7)
    tiles = [event for event in job.events.events if isinstance(event, TileDone)]
    assert tiles
    assert all(tile.picture is None for tile in tiles)


def test_without_memory_the_same_clip_is_made_in_smaller_pieces():
    frames = torch.rand(4, 3, 120, 200)
    job = context(Size(200, 120), clip_frames=4)
    model = Doubler(most=7000)
    made = Upscale(model, job).run(frames, 0)
    torch.testing.assert_close(made, Upscale(Doubler(), context(Size(200, 120))).run(frames, 0))
    downgrades = [event for event in job.events.events if isinstance(event, PlanDowngraded)]
    assert downgrades[0].notice.message == (
        "Out of memory: the job continues with 2 instead of 4 frames at a time."
    )
    assert job.plan.work.clip_frames == 1
    assert job.plan.work.tile.pixels <= 7000
    assert downgrades[-1].plan == job.plan


def test_no_memory_at_all_is_for_others_to_answer():
    job = context(Size(200, 120))
    with pytest.raises(torch.OutOfMemoryError):
        Upscale(Doubler(most=10), job).run(torch.rand(1, 3, 120, 200), 0)
    assert job.plan.work.tile == Size(64, 64)


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


@pytest.mark.gpu
def test_what_a_gpu_refuses_is_done_in_smaller_pieces_with_the_same_result() -> None:
    """A real lack of memory: the allocator of a GPU with a low limit."""
    size = Size(960, 540)
    how = {"device": "cuda", "dtype": "float16", "frame": size, "overlap": 32, "clip_frames": 16}
    frames = torch.rand(16, 3, size.height, size.width)

    def enlarged() -> tuple[torch.Tensor, list[PlanDowngraded]]:
        job = context(size, **how)
        job.pictures = False
        model = registry.family_of(job.plan.work).load_frames(job.plan.work)
        with torch.inference_mode():
            made = Upscale(model, job).run(frames.to("cuda"), 0).cpu()
        return made, [event for event in job.events.events if isinstance(event, PlanDowngraded)]

    free_memory()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    whole, changes = enlarged()
    assert not changes
    free_memory()
    assert torch.cuda.memory_allocated() == before, "something of the job is still there"
    needed = torch.cuda.max_memory_allocated() - before
    results = frames.nbytes * 5  # of the source and of what is made of it
    limit = torch.cuda.memory_reserved() + results + (needed - results) // 2 + 64 * 2**20
    with within(limit):
        small, changes = enlarged()
    assert changes
    assert all(change.why == "out-of-memory" for change in changes)
    assert float((small - whole).abs().max()) < 2 / 255
