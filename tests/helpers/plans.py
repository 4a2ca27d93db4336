"""Plain data for tests that need no file: a source, a plan, a machine."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from engine.core.geometry import FrameSpan, Size
from engine.hardware.budget import Budget
from engine.models.copy.family import CopyPlan
from engine.protocol.media import MediaInfo, VideoInfo
from engine.protocol.plan import PicturePlan, Plan


def a_media(**video: Any) -> MediaInfo:
    """A ten-second film of 640x360 at 25 frames/s, with any field of its picture changed."""
    about = VideoInfo(
        index=0,
        codec="h264",
        size=Size(640, 360),
        pixel_format="yuv420p",
        chroma="420",
        bit_depth=8,
        frame_rate=Fraction(25),
        frame_count=250,
        duration=Fraction(10),
        bit_rate=3_000_000,
    )
    return MediaInfo(
        path=Path("film.mkv"),
        kind="video",
        container="matroska,webm",
        bytes=4_000_000,
        video=replace(about, **video),
    )


def a_plan(**changes: Any) -> Plan:
    """A plan for `a_media`, with any field changed."""
    plan = Plan(
        source=Path("film.mkv"),
        output=Path("film_x2.mkv"),
        container="mkv",
        source_size=Size(640, 360),
        span=FrameSpan(0, 250),
        work=CopyPlan(frame=Size(640, 360), tile=Size(640, 360)),
        picture=PicturePlan(
            size=Size(1280, 720),
            codec="h264",
            encoder="libx264",
            pixel_format="yuv420p",
            chroma="420",
            bit_depth=8,
        ),
    )
    return replace(plan, **changes)


def a_budget(**changes: Any) -> Budget:
    """A machine with 16 GB to give, four cores, no card and an empty disk."""
    budget = Budget(
        ram_bytes=16 * 10**9,
        threads=4,
        free_output_bytes=10**12,
        free_jobs_bytes=10**12,
    )
    return replace(budget, **changes)
