"""Progress of a model that finishes many frames at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from engine.core.geometry import FrameSpan
from engine.pipeline.stages import progress
from engine.pipeline.stages.progress import Progress
from engine.protocol.events import StageProgress
from engine.protocol.plan import StagePlan
from tests.helpers.plans import a_plan

SECONDS = {"read": 50.0, "encode": 20.0, "transformer": 10.0, "decode": 70.0, "write": 9.0}


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[StageProgress]:
    """Events, of which each call emits one."""
    monkeypatch.setattr(progress, "Throttle", lambda period: lambda: True)
    return []


def started(shown: list[StageProgress], done: int = 0) -> Progress:
    stages = tuple(
        StagePlan(stage=name, peak_bytes=0, device_bytes=0, seconds=seconds)
        for name, seconds in SECONDS.items()
    )
    plan = a_plan(span=FrameSpan(0, 100), stages=stages)
    events = SimpleNamespace(emit=shown.append)
    context: Any = SimpleNamespace(plan=plan, events=events, job_id="job")
    return Progress(context, done)


def test_stages_of_the_model_count_by_their_time(shown: list[StageProgress]) -> None:
    counted = started(shown)
    counted.advance("encode", 50)
    counted.advance("transformer", 50)
    counted.advance("decode", 0.5)
    assert [event.done for event in shown] == [10, 15, 15]
    counted.add(40)
    assert shown[-1].done == 40


def test_all_frames_are_done_when_the_last_one_is_finished(shown: list[StageProgress]) -> None:
    counted = started(shown, done=30)
    assert shown == []
    for stage in ("encode", "transformer", "decode"):
        counted.advance(stage, 90)  # 20 of them once more
    assert shown[-1].done == 99
    counted.add(70)
    assert (shown[-1].done, shown[-1].total, shown[-1].seconds_left) == (100, 100, 0)
