"""A video that the preview can show: a source, or a result of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app import labels
from app.i18n import tr
from engine.core.geometry import Size
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan

SOURCE = ""  # key of the source among the videos of a job


@dataclass(frozen=True, slots=True, kw_only=True)
class Film:
    """One of the two videos that are shown in sync."""

    job_id: str  # job that has it: the engine is asked for its frames by this name
    media: MediaInfo  # the source of the job
    plan: Plan | None  # plan of the job; None where it is not planned yet
    side: Literal["source", "result"]  # whether it is that source, or what the job makes of it
    name: str = ""  # name that tells it from other results of its size; "" for that of its model

    @property
    def key(self) -> str:
        """`SOURCE`, or the job of a result: what tells the videos of one source apart."""
        return SOURCE if self.side == "source" else self.job_id

    @property
    def size(self) -> Size:
        """Size as seen, px."""
        if self.side == "source" or self.plan is None:
            return self.media.video.seen_size
        return self.plan.picture.seen_size

    @property
    def title(self) -> str:
        """Its name."""
        if self.side == "source":
            return tr("Original")
        return self.name or labels.result_name(self.plan)

    @property
    def label(self) -> str:
        """Its name and size."""
        return f"{self.title} {labels.size(self.size)}"

    @property
    def span_s(self) -> tuple[float, float | None]:
        """Part of the source that it has: from when to when in s; None for the end."""
        if self.side == "source" or self.plan is None:
            return 0.0, None
        stop = self.plan.stop
        return float(self.plan.start or 0), None if stop is None else float(stop)


def common_span_s(pair: tuple[Film, Film]) -> tuple[float, float | None]:
    """The part of the source that both videos have, in s; None for the end; empty where none is."""
    (first, first_stop), (second, second_stop) = (film.span_s for film in pair)
    stops = [stop for stop in (first_stop, second_stop) if stop is not None]
    return max(first, second), min(stops, default=None)
