"""The family Nearest: each pixel becomes a square of pixels. What planner and window need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from engine.core.geometry import Size
from engine.models.contracts import BenchRequest, BenchWork, StageWork, WorkRequest
from engine.models.frame_family import FrameFamily, FramePlan, frame_needs
from engine.models.planning.memory import MemoryRequirement
from engine.models.upscalers import FrameUpscaler
from engine.protocol.plan import Notice

FACTOR = 2
_RGB_BYTES = 12  # of a pixel in float32


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestPlan(FramePlan):
    """Repeated pixels, tile by tile."""

    family: str = "nearest"
    model: str = "nearest-2x"

    @property
    def scale(self) -> int:
        """Factor of both sides."""
        return FACTOR

    @property
    def line(self) -> str:
        """The plan in one line."""
        return f"{self.model}, {self.device}, {self.tiles} tiles"

    @property
    def summary(self) -> tuple[Notice, ...]:
        """That pixels are repeated."""
        return (Notice(code="repeated", severity="info", params={"factor": str(FACTOR)}),)


class NearestFamily(FrameFamily[NearestPlan]):
    """A single model, "nearest-2x"."""

    name = "nearest"
    title = "Nearest"
    models: ClassVar[dict[str, str]] = {"nearest-2x": "Nearest 2x"}
    plan = NearestPlan
    enlarges_only = True
    is_built_in = True

    def choose(self, request: WorkRequest) -> NearestPlan:
        """Whole frames, four at a time."""
        frame = request.video.size
        return NearestPlan(
            device=request.device,
            clip_frames=4,
            threads=request.budget.threads,
            frame=frame,
            tile=frame,
        )

    def needs(self, work: NearestPlan) -> MemoryRequirement:
        """Bytes of the enlarged tiles and, where a frame has several, of the canvas."""
        tile = work.clip_frames * work.tile.scaled(FACTOR).pixels * _RGB_BYTES
        canvas = work.clip_frames * work.canvas.pixels * _RGB_BYTES if work.tiles > 1 else 0
        return frame_needs(work, tile + canvas, weights=0)

    def stage_work(self, work: NearestPlan, frames: int) -> dict[str, StageWork]:
        """One operation for each pixel of the result."""
        operations = float(work.tiles * work.tile.scaled(FACTOR).pixels * frames)
        return {"upscale": StageWork(kind="vae", dtype=work.dtype, operations=operations)}

    def choices(self, work: NearestPlan) -> Iterator[Notice]:
        """The model."""
        params = {"factor": str(work.scale)}
        yield Notice(code="model", case="nearest", severity="info", params=params)

    def load_frames(
        self, work: NearestPlan, between: Callable[[], None] | None = None
    ) -> FrameUpscaler:
        """The model; what needs torch is imported here, not at the top."""
        from tests.fake_family.upscaler import NearestUpscaler

        return NearestUpscaler(FACTOR)

    def benchmarks(self, request: BenchRequest) -> Iterator[tuple[str, Callable[[], BenchWork]]]:
        """The model on a random frame."""
        yield self.models["nearest-2x"], partial(_measured, request)


def _measured(request: BenchRequest) -> BenchWork:
    import torch

    from tests.fake_family.upscaler import NearestUpscaler

    size = request.size or Size(64, 64)
    frames = torch.rand(1, 3, size.height, size.width, device=request.device)
    pixels = size.scaled(FACTOR).pixels
    return BenchWork(
        compute=partial(NearestUpscaler(FACTOR).upscale, frames),
        dtype="float32",
        megapixels=pixels / 1e6,
        operations=float(pixels),
    )


FAMILY = NearestFamily()
