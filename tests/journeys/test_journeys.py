"""Each journey once; `python -m tests.journeys` shows them as a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.journeys.journeys import JOURNEYS
from tests.journeys.screen import missing

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]


@pytest.mark.parametrize("name", JOURNEYS)
def test_journey(name: str, tmp_path: Path) -> None:
    JOURNEYS[name](tmp_path)
