"""Small films, plans and pictures for the stage."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from engine.core.geometry import FrameSpan, Size
from engine.models.lite.plan import LitePlan
from engine.protocol.events import Picture
from engine.protocol.media import MediaInfo, VideoInfo
from engine.protocol.plan import PicturePlan, Plan

Flat = Callable[..., Picture]


@pytest.fixture
def flat() -> Flat:
    """Makes pictures of one colour."""

    def make(width: int, height: int, colour: tuple[int, int, int]) -> Picture:
        return Picture(size=Size(width, height), rgb=bytes(colour) * (width * height))

    return make


@pytest.fixture
def media() -> MediaInfo:
    """Ten seconds of 64x36 at 25 frames a second."""
    return MediaInfo(
        path=Path("film.mp4"),
        kind="video",
        container="mov,mp4",
        bytes=1000,
        video=VideoInfo(
            index=0,
            codec="h264",
            size=Size(64, 36),
            pixel_format="yuv420p",
            chroma="420",
            bit_depth=8,
            frame_rate=Fraction(25),
            frame_count=250,
            duration=Fraction(10),
        ),
    )


@pytest.fixture
def plan() -> Plan:
    """Twice as large, from 2 s to 8 s."""
    return Plan(
        source=Path("film.mp4"),
        output=Path("film_x2.mp4"),
        container="mp4",
        source_size=Size(64, 36),
        span=FrameSpan(0, 150),
        start=Fraction(2),
        stop=Fraction(8),
        work=LitePlan(frame=Size(64, 36), tile=Size(64, 36)),
        picture=PicturePlan(
            size=Size(128, 72),
            codec="h264",
            encoder="libx264",
            pixel_format="yuv420p",
            chroma="420",
            bit_depth=8,
        ),
        seconds=65.0,
        peak_bytes=1_400_000_000,
    )
