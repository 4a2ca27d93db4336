"""Small films, plans and pictures for the stage."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from PySide6.QtGui import QColor, QImage

from engine.core.geometry import FrameSpan, Size
from engine.protocol.events import Picture
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan
from tests.helpers.fakes import make_media, make_plan


def image_of(colour: QColor, width: int, height: int) -> QImage:
    """An image of one colour."""
    image = QImage(width, height, QImage.Format.Format_RGB32)
    image.fill(colour)
    return image


def flat(width: int, height: int, colour: tuple[int, int, int]) -> Picture:
    """A picture of one colour."""
    return Picture(size=Size(width, height), rgb=bytes(colour) * (width * height))


@pytest.fixture
def media() -> MediaInfo:
    """Ten seconds of 64x36 at 25 frames a second."""
    made = make_media(Path("film.mp4"), size=Size(64, 36), frames=250)
    return replace(made, video=replace(made.video, frame_rate=Fraction(25), duration=Fraction(10)))


@pytest.fixture
def plan(media: MediaInfo) -> Plan:
    """2x, from 2 s to 8 s."""
    cut = {"span": FrameSpan(0, 150), "start": Fraction(2), "stop": Fraction(8)}
    return replace(make_plan(media), **cut, seconds=65.0, peak_bytes=1_400_000_000)
