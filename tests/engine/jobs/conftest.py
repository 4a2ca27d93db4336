"""A source of a second, and an engine that runs jobs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.clips import Clip, make_clip
from tests.helpers.jobs import FRAMES, Run, running_engine


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return make_clip(tmp_path / "film.mkv", Clip(frames=FRAMES, size=(64, 48)))


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Run]:
    with running_engine(tmp_path / "jobs") as pair:
        yield pair
