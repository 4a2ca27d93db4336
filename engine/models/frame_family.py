"""Families whose models redraw frames one by one: plans in tiles, and what they share. No torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from engine.core.geometry import Size
from engine.core.messages import Message, message
from engine.models.contracts import ModelFamily, StageWork
from engine.models.planning.candidates import chosen
from engine.models.planning.memory import MemoryRequirement, Room
from engine.protocol.plan import Notice, WorkPlan
from engine.settings.schema import JobSettings
from engine.tiling.grid import tile_grid

_RGB_BYTES = 12  # of a pixel in float32
_SOURCE_BYTES = 16  # with alpha
_LEAST_TILE = 64  # px
# of blending a frame with the next one: of a pixel of the source, which is looked at, then of one
# of the result, in addition to the frames themselves; and bytes that a GPU moves for it
_LOOKING_BYTES, _BLENDING_BYTES, _MOVED_BYTES = 40, 20, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class FramePlan(WorkPlan):
    """Plan of a model that takes frames one by one, tile by tile."""

    frame: Size  # size of the source as stored
    tile: Size  # px of the source at a time, halo included
    overlap: int = 0  # px that neighbouring tiles share
    steadiness: str = "off"  # or "mild": frames are blended where the video stands still

    @property
    def canvas(self) -> Size:
        """Size of the pictures that the model makes."""
        return self.frame.scaled(self.scale)

    @property
    def step_values(self) -> dict[str, str]:
        """The longer side of a tile."""
        return {"tile": str(max(self.tile.width, self.tile.height))}

    @property
    def tiles(self) -> int:
        """Tiles of a frame."""
        return len(tile_grid(self.frame, self.tile, self.overlap))


F = TypeVar("F", bound=FramePlan)


class FrameFamily(ModelFamily[F]):
    """Base of such families: plans with fewer frames at a time, then smaller tiles."""

    def fitted(self, work: F, room: Room) -> F:
        """The first plan that fits, from the largest on: larger ones are never slower."""
        while not room.holds(work):
            smaller = self.smaller(work)
            if smaller is None:
                break
            work = smaller
        return work

    def smaller(self, work: F, stage: str = "") -> F | None:
        """Fewer frames at a time, then smaller tiles; None at the minimum."""
        if work.clip_frames > 1:
            return replace(work, clip_frames=work.clip_frames // 2)
        least = max(_LEAST_TILE, 4 * work.overlap)
        if max(work.tile.width, work.tile.height) <= least:
            return None
        tile = Size(
            min(work.tile.width, max(least, work.tile.width // 2)),
            min(work.tile.height, max(least, work.tile.height // 2)),
        )
        return replace(work, tile=tile)

    def gentler(self, work: F, than: F) -> F:
        """Fewer frames at a time, then smaller tiles; as it is at the minimum."""
        return self.smaller(than) or than

    def changes(self, old: F, new: F) -> Iterator[Message]:
        """Frames at a time, or tiles."""
        if old.clip_frames != new.clip_frames:
            yield message("change.frames", before=old.clip_frames, after=new.clip_frames)
        elif old.tile != new.tile:
            yield message("change.tiles", before=old.tile, after=new.tile)


def steadiness_of(settings: JobSettings, *, is_restored: bool) -> str:
    """Steadiness of a plan.

    "auto" is "mild" for a network that removes noise; any other keeps noise as detail, which
    blending would soften.
    """
    if settings.steadiness == "auto":
        return "mild" if is_restored else "off"
    return settings.steadiness


def chosen_steadiness(work: FramePlan) -> Iterator[Notice]:
    """Notice that frames are blended with their neighbours, where they are."""
    if work.steadiness != "off":
        yield chosen("steadiness", work.steadiness)


def steadying(work: FramePlan, frames: int) -> dict[str, StageWork]:
    """Work of the stage "steady" on n frames; none without that stage."""
    if work.steadiness == "off":
        return {}
    pixels = work.canvas.pixels * frames
    cost = "steady", pixels / 1e6
    return {
        "steady": StageWork(
            kind="vae",
            dtype="float32",
            operations=0.0,
            processor=cost,
            moved_bytes=float(_MOVED_BYTES * pixels),
        )
    }


def frame_needs(work: FramePlan, upscaling: int, weights: int) -> MemoryRequirement:
    """Bytes of a job.

    A model that sees neighbours gets a clip once the next one is there; the last frame of the clip
    before stays for it. Where frames are blended the last one of a clip waits for the next clip: as
    the model made it, its part of the last exchange, and its source.

    Args:
        work: The plan.
        upscaling: Bytes of the model's work on a clip, the result included.
        weights: Bytes of weights.
    """
    small, frame = work.frame.pixels * _RGB_BYTES, work.canvas.pixels * _RGB_BYTES
    clip, waiting, kept = work.clip_frames * frame, 0, 0
    if work.sees_neighbours:
        waiting = work.clip_frames + 1
        kept = waiting * small
        upscaling += 2 * work.clip_frames * small  # both neighbours of each frame
    working, finishing = {"upscale": upscaling}, clip
    if work.steadiness != "off":
        looking, blending = work.frame.pixels * _LOOKING_BYTES, work.canvas.pixels * _BLENDING_BYTES
        working["steady"] = clip + max(looking, blending)
        finishing += frame if work.clip_frames > 1 else 0
        waiting += 1
        kept += 2 * frame + work.frame.pixels * _SOURCE_BYTES
    return MemoryRequirement(
        weights=weights,
        working={stage: kept + size for stage, size in working.items()},
        finishing=kept + finishing,
        between=kept,
        finished=work.clip_frames,
        waiting=waiting,
    )
