"""The family Lite: the built-in upscaler in two sizes, frame by frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import ClassVar

from engine.core.messages import Message, message
from engine.hardware.budget import Budget
from engine.models.contracts import BenchRequest, BenchWork, StageWork, WorkRequest
from engine.models.frame_family import FrameFamily, chosen_steadiness, frame_needs, steadying
from engine.models.lite import files, plan
from engine.models.lite.cost import lite_cost, lite_multiplications, lite_passed_bytes
from engine.models.lite.plan import LitePlan
from engine.models.planning.candidates import chosen, chosen_tiles
from engine.models.planning.memory import DTYPE_BYTES, MemoryRequirement
from engine.models.upscalers import FrameUpscaler
from engine.protocol.plan import Notice
from engine.protocol.report import State
from engine.settings.schema import JobSettings

_RGB_BYTES, _FLOAT_BYTES = 12, 4
_GREY_OFF = 0.02  # that an enlarged grey picture may be, of white


class LiteFamily(FrameFamily[LitePlan]):
    """Lite and Lite Plus, twice and four times as wide and high."""

    name = "lite"
    title = "Lite"
    models: ClassVar[dict[str, str]] = files.MODELS
    plan = LitePlan
    enlarges_only = True
    is_built_in = True

    def automatic(self, settings: JobSettings, budget: Budget) -> tuple[str, ...]:
        """Both run anywhere; the larger one first."""
        return tuple(reversed(files.MODELS))

    def choose(self, request: WorkRequest) -> LitePlan:
        """The network and its tiles."""
        return plan.largest(request)

    def needs(self, work: LitePlan) -> MemoryRequirement:
        """Bytes of enlarging a clip tile by tile, the result included."""
        item = DTYPE_BYTES[work.dtype]
        cost = lite_cost(
            files.config_of(work.weights), work.tile, frames=work.clip_frames, dtype_bytes=item
        )
        working = cost.working
        if work.tile != work.frame:
            tile = work.clip_frames * work.tile.scaled(work.scale).pixels * _RGB_BYTES
            canvas = work.canvas.pixels * (work.clip_frames * _RGB_BYTES + _FLOAT_BYTES)
            working = canvas + tile + max(working, tile)  # the tile before is still there
        return frame_needs(work, working, cost.weights)

    def stage_work(self, work: LitePlan, frames: int) -> dict[str, StageWork]:
        """Operations and passes of all tiles.

        On a CPU the pixels of the source count for Lite, whose time is not that of its products.
        """
        tiles, config = work.tiles * frames, files.config_of(work.weights)
        passed = lite_passed_bytes(config, work.tile, tiles, DTYPE_BYTES[work.dtype])
        upscaling = StageWork(
            kind="lite-plus" if work.model == "lite-plus" else "lite",
            dtype=work.dtype,
            operations=float(2 * lite_multiplications(config, work.tile, tiles)),
            passed_bytes=float(passed),
        )
        if work.model == "lite":
            cost = f"lite-{work.scale}-{work.dtype}", work.tile.pixels * tiles / 1e6
            upscaling = replace(upscaling, processor=cost)
        return {"upscale": upscaling, **steadying(work, frames)}

    def choices(self, work: LitePlan) -> Iterator[Notice]:
        """The model with its treatment, and tiles."""
        yield chosen("model", f"{work.model}-{work.treatment}", scale=work.scale)
        yield chosen_tiles("tiles", work.tiles, work.tile)
        yield from chosen_steadiness(work)

    def has_changed(self, work: LitePlan) -> bool:
        """Whether another version of the program has other weights."""
        return files.weights_sha256(work.weights) != work.weights_sha256

    def load_frames(
        self, work: LitePlan, between: Callable[[], None] | None = None
    ) -> FrameUpscaler:
        """The network, on its device."""
        from engine.models.lite.net import load_lite
        from engine.models.lite.upscaler import LiteUpscaler

        return LiteUpscaler(load_lite(files.weights_path(work.weights)), work, between)

    def benchmarks(self, request: BenchRequest) -> Iterator[tuple[str, Callable[[], BenchWork]]]:
        """Both factors of both sizes."""
        from engine.models.lite.upscaler import upscaling

        for model, title in files.MODELS.items():
            for scale in files.SCALES:
                yield f"{title} {scale}x", partial(upscaling, request, scale, model)

    def self_tests(self) -> Iterator[tuple[str, Callable[[], tuple[State, Message]]]]:
        """Each weights file: loaded strictly, a grey picture stays grey."""
        for file in files.FILES:
            yield file.name, partial(self._try_file, file.name, file.scale)

    def _try_file(self, name: str, scale: int) -> tuple[State, Message]:
        import torch

        from engine.models.lite.net import load_lite

        with torch.inference_mode():
            result = load_lite(files.weights_path(name))(torch.full((1, 3, 32, 32), 0.5))
        error = float((result - 0.5).abs().max())
        if tuple(result.shape) != (1, 3, 32 * scale, 32 * scale) or not error < _GREY_OFF:
            return "problem", message("doctor.weights.wrong", error=f"{error:.3f}")
        digest = files.weights_sha256(name)[:12]
        return "ok", message("doctor.weights.right", digest=digest, error=f"{error:.4f}")


FAMILY = LiteFamily()
