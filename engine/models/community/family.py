"""The family of community models: one network of one frame from a file of the user's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from engine.core.errors import WeightsMissing
from engine.core.geometry import Size
from engine.files.model_files import named
from engine.hardware.budget import Budget
from engine.models.community.plan import (
    LEAST_OVERLAP,
    CommunityPlan,
    NetworkCall,
    NetworkCost,
    within_seconds,
)
from engine.models.contracts import FileUse, StageWork, WorkRequest
from engine.models.frame_family import (
    FrameFamily,
    chosen_steadiness,
    frame_needs,
    steadiness_of,
    steadying,
)
from engine.models.planning.candidates import chosen, chosen_tiles
from engine.models.planning.memory import COMPILER_BYTES, DTYPE_BYTES, MemoryRequirement
from engine.models.upscalers import FrameUpscaler
from engine.protocol.model_file_state import NetworkFacts
from engine.protocol.plan import Notice, WeightsPlan

_RGB_BYTES, _FLOAT_BYTES = 12, 4
_BATCH_PIXELS = 1_300_000  # of frames in one call on a GPU, as Lite
_MOST_FRAMES = 8
_INTENSITY = 250  # operations for a byte of passes: one after each 3x3 convolution of 64 channels


class CommunityFamily(FrameFamily[CommunityPlan]):
    """Whatever spandrel recognises."""

    name = "community"
    title = "Community model"
    models: ClassVar[dict[str, str]] = {"community": "Community model"}
    plan = CommunityPlan

    def choose(self, request: WorkRequest) -> CommunityPlan:
        """Whole frames where the device computes one in seconds.

        Raises:
            WeightsMissing: No file is named, or it is not there.
            WeightsError: The file is none of such a model.
        """
        settings, frame = request.settings, request.video.size
        if not settings.model_file:
            raise WeightsMissing("no-model-file")
        weights, on_gpu = named(Path(settings.model_file)), request.device == "cuda"
        facts, call = _called(weights, half=on_gpu)
        edge = max(settings.tile, 4 * LEAST_OVERLAP) if settings.tile else 0
        plan = CommunityPlan(
            device=request.device,
            dtype=call.dtype,
            threads=request.budget.threads,
            frame=frame,
            tile=Size(min(edge, frame.width), min(edge, frame.height)) if edge else frame,
            overlap=max(settings.overlap, LEAST_OVERLAP),
            steadiness=steadiness_of(settings, is_restored=False),
            weights=weights,
            network=facts,
            call=call,
            cost=NetworkCost(),
        )
        plan = _with_cost(plan) if edge else within_seconds(plan, _with_cost)
        if not (on_gpu and call.batches and plan.tiles == 1):
            return plan
        return replace(plan, clip_frames=max(1, min(_MOST_FRAMES, _BATCH_PIXELS // frame.pixels)))

    def wider(self, work: CommunityPlan, budget: Budget, part: str = "") -> CommunityPlan | None:
        """Plan in float32."""
        if work.dtype == "float32":
            return None
        _, call = _called(work.weights, half=False)
        return _with_cost(replace(work, dtype=call.dtype, call=call))

    def smaller(self, work: CommunityPlan, stage: str = "") -> CommunityPlan | None:
        """Plan like any family of single frames, with the cost of its tiles."""
        smaller = super().smaller(work, stage)
        return smaller and _with_cost(smaller)

    def needs(self, work: CommunityPlan) -> MemoryRequirement:
        """Bytes of enlarging a clip, in tiles where frames are cut."""
        working = work.working_bytes
        if work.tiles > 1:
            tile = work.clip_frames * work.tile.scaled(work.scale).pixels * _RGB_BYTES
            canvas = work.canvas.pixels * (work.clip_frames * _RGB_BYTES + _FLOAT_BYTES)
            working = canvas + tile + max(working, tile)  # the tile before is still there
        found = frame_needs(work, working, work.cost.weights)
        return replace(found, measuring=COMPILER_BYTES)

    def stage_work(self, work: CommunityPlan, frames: int) -> dict[str, StageWork]:
        """Operations of all tiles."""
        operations = work.cost.operations * work.tiles * frames
        passed = operations / _INTENSITY * DTYPE_BYTES[work.dtype] / 2
        upscaling = StageWork(
            kind="vae", dtype=work.dtype, operations=operations, passed_bytes=passed
        )
        return {"upscale": upscaling, **steadying(work, frames)}

    def choices(self, work: CommunityPlan) -> Iterator[Notice]:
        """The file with its architecture, and tiles."""
        yield chosen(
            "model",
            "community" if work.scale > 1 else "community-restores",
            name=work.weights.name,
            architecture=work.network.architecture,
            scale=work.scale,
            dtype=work.dtype,
        )
        yield chosen_tiles("tiles", work.tiles, work.tile)
        yield from chosen_steadiness(work)

    def notices(self, work: CommunityPlan, budget: Budget) -> Iterator[Notice]:
        """Notice that tiles may differ in tone, for networks that look at whole frames."""
        if work.tiles > 1 and work.network.dislikes_tiles:
            params = {"architecture": work.network.architecture, "count": str(work.tiles)}
            yield Notice(code="tiles-may-differ", severity="warning", params=params)

    def size_notices(self, work: CommunityPlan, factor: float) -> Iterator[Notice]:
        """Notice that another size is made by resizing, also for networks that keep the size."""
        if work.scale == 1 != round(factor, 2):
            params = {"factor": f"{factor:.3g}"}
            yield Notice(code="model-keeps-size", severity="info", params=params)
        yield from super().size_notices(work, factor)

    def load_frames(
        self, work: CommunityPlan, between: Callable[[], None] | None = None
    ) -> FrameUpscaler:
        """The network, on its device."""
        from engine.models.community.network import load
        from engine.models.community.upscaler import CommunityUpscaler

        return CommunityUpscaler(load(work.weights), work.network, work.call, work.device)

    def use_of_file(self, path: Path) -> FileUse | None:
        """Network that spandrel recognises; loads torch."""
        from engine.models.community.network import recognised

        found = recognised(path)
        if found is None:
            return None
        return FileUse(
            kind="upscaler", models=("community",), network=found.facts, licence=found.licence
        )


def _called(weights: WeightsPlan, *, half: bool) -> tuple[NetworkFacts, NetworkCall]:
    """Result of `upscaler.called`, which loads torch."""
    from engine.models.community.upscaler import called

    return called(weights, half=half)


def _with_cost(plan: CommunityPlan) -> CommunityPlan:
    """Result of `upscaler.with_cost`, which loads torch."""
    from engine.models.community.upscaler import with_cost

    return with_cost(plan)


FAMILY = CommunityFamily()
