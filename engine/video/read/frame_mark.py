"""The mark by which a frame of a source is found again; loads no numpy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameMark:
    """The last finished frame of a job: enough to go on right after it."""

    count: int  # frames finished since the first of the job
    pts: int  # of the last one
    crc: int  # of the last one
