"""A source of a second and a half, and an engine that runs jobs."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from tests.helpers.clips import Clip, make_clip
from tests.helpers.jobs import FRAMES, Run, running_engine


@pytest.fixture
def source(tmp_path: Path) -> Path:
    clip = Clip(frames=FRAMES, rate=Fraction(6), size=(64, 48))
    return make_clip(tmp_path / "film.mkv", clip)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Run]:
    with running_engine(tmp_path / "jobs") as pair:
        yield pair
