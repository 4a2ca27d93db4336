"""A real lack of memory: the allocator of a card that may take little. Runs without av and Qt."""

from __future__ import annotations

import pytest
import torch

from engine.core.control import Control
from engine.core.geometry import Size
from engine.hardware.out_of_memory import free_memory
from engine.hardware.torch_memory import within
from engine.models import registry
from engine.models.lite.plan import LitePlan
from engine.pipeline.context import JobContext
from engine.pipeline.stages.upscale import Upscale
from engine.protocol.events import Event, PlanDowngraded
from tests.helpers.plans import a_media, a_plan

pytestmark = pytest.mark.gpu

MIB = 2**20
FRAME = Size(960, 540)
WORK = LitePlan(
    weights="lite_x2_faithful.safetensors",
    device="cuda",
    dtype="float16",
    clip_frames=16,
    frame=FRAME,
    tile=FRAME,
    overlap=32,
)


class Ears:
    def __init__(self) -> None:
        self.smaller: list[PlanDowngraded] = []

    def emit(self, event: Event) -> None:
        if isinstance(event, PlanDowngraded):
            self.smaller.append(event)


def enlarged(frames: torch.Tensor) -> tuple[torch.Tensor, list[PlanDowngraded]]:
    ears = Ears()
    context = JobContext(
        job_id="a",
        media=a_media(),
        plan=a_plan(work=WORK, source_size=FRAME),
        control=Control(),
        events=ears,
        pictures=False,
    )
    model = registry.family_of(WORK).load_frames(WORK)
    with torch.inference_mode():
        return Upscale(model, context).run(frames.to("cuda"), 0).cpu(), ears.smaller


def test_what_a_card_refuses_is_done_in_smaller_pieces_with_the_same_result() -> None:
    frames = torch.rand(16, 3, FRAME.height, FRAME.width)
    free_memory()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    whole, changes = enlarged(frames)
    assert not changes
    free_memory()
    assert torch.cuda.memory_allocated() == before, "something of the job is still there"
    needed = torch.cuda.max_memory_allocated() - before
    results = frames.nbytes * 5  # of the source and of what is made of it
    limit = torch.cuda.memory_reserved() + results + (needed - results) // 2 + 64 * MIB
    with within(limit):
        small, changes = enlarged(frames)
    assert changes
    assert all(change.why == "out-of-memory" for change in changes)
    assert float((small - whole).abs().max()) < 2 / 255
