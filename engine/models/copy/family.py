"""The family without a model: frames are passed on, resized and encoded again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from engine.models.contracts import StageWork, WorkRequest
from engine.models.frame_family import FrameFamily, FramePlan
from engine.models.planning.candidates import chosen
from engine.models.planning.memory import MemoryRequirement
from engine.protocol.plan import Notice

_PIXELS = 520_000  # of the source at a time
_MOST_FRAMES = 8  # at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPlan(FramePlan):
    """Frames are passed on as they are."""

    family: str = "copy"
    model: str = "none"

    @property
    def line(self) -> str:
        """The plan in one line."""
        return "none: re-encode only"


class CopyFamily(FrameFamily[CopyPlan]):
    """Model "none"."""

    name = "copy"
    title = "No model"
    models: ClassVar[dict[str, str]] = {"none": "No model"}
    plan = CopyPlan

    def choose(self, request: WorkRequest) -> CopyPlan:
        """Whole frames, several at a time where they are small."""
        frame = request.video.size
        return CopyPlan(
            device=request.device,
            clip_frames=max(1, min(_MOST_FRAMES, _PIXELS // max(1, frame.pixels))),
            threads=request.budget.threads,
            frame=frame,
            tile=frame,
        )

    def smaller(self, work: CopyPlan, stage: str = "") -> CopyPlan | None:
        """Fewer frames at a time; there is nothing to be cut into tiles."""
        return FrameFamily.smaller(self, work) if work.clip_frames > 1 else None

    def needs(self, work: CopyPlan) -> MemoryRequirement:
        """Nothing besides the frames themselves."""
        return MemoryRequirement(
            weights=0, working={"upscale": 0}, finishing=0, finished=work.clip_frames
        )

    def stage_work(self, work: CopyPlan, frames: int) -> dict[str, StageWork]:
        """Nothing is computed."""
        return {}

    def choices(self, work: CopyPlan) -> Iterator[Notice]:
        """States that there is no model."""
        yield chosen("model", "copy")

    def size_notices(self, work: CopyPlan, factor: float) -> Iterator[Notice]:
        """States that nothing redraws a smaller frame."""
        if factor < 1:
            yield Notice(code="target-is-smaller", severity="info")

    def load_frames(self, work: CopyPlan, between: Callable[[], None] | None = None) -> None:
        """No model."""
        return None


FAMILY = CopyFamily()
