"""How fast workers are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from engine.workers.team import Team


def test_frames_and_seconds_while_the_clock_ran() -> None:
    clock = SimpleNamespace(now=0.0)
    plan: Any = SimpleNamespace(workers=(1,))
    team = Team(plan, None, lambda: clock.now)
    for at, event, frames in (
        # 20 in 10 s, whatever is learnt meanwhile, and 30 in 15 s
        *((100, "works", 10), (105, "works", 20), (110, "made", 30), (125, "made", 30)),
        *((125, "rests", 0), (200, "works", 4), (202, "made", 14)),  # it waited; 10 in 2 s
    ):
        clock.now = at
        getattr(team, event)(*(0, frames)[: 1 if event == "rests" else 2])
    assert team.measured == {0: (pytest.approx(60), 27)}
