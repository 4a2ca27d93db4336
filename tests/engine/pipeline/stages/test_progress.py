"""Progress of a model that finishes many frames at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch

from engine.core import control as control_module
from engine.core.control import Control
from engine.core.geometry import Box, FrameSpan, Size
from engine.pipeline.stages import progress
from engine.pipeline.stages.progress import Progress, ShownTiles
from engine.protocol.events import Picture, StageProgress, TileDone
from engine.protocol.plan import StagePlan
from tests.helpers.plans import a_media, a_plan

SECONDS = {"read": 50.0, "encode": 20.0, "transformer": 10.0, "decode": 70.0, "write": 9.0}


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[StageProgress]:
    """Events, of which each call emits one."""
    monkeypatch.setattr(progress, "Throttle", lambda period: lambda: True)
    return []


def started(shown: list[StageProgress], done: int = 0, control: Control | None = None) -> Progress:
    stages = tuple(
        StagePlan(stage=name, peak_bytes=0, device_bytes=0, seconds=seconds)
        for name, seconds in SECONDS.items()
    )
    plan = a_plan(span=FrameSpan(0, 100), stages=stages)
    events = SimpleNamespace(emit=shown.append)
    control = control or Control()
    context: Any = SimpleNamespace(plan=plan, events=events, job_id="job", control=control)
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


def test_a_pause_is_no_part_of_the_speed(
    shown: list[StageProgress], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [50.0]
    monkeypatch.setattr(control_module, "awake_seconds", lambda: now[0])
    control = Control()
    counted = started(shown, control=control)
    for frames in (10, 30):
        now[0] += 5
        counted.add(frames)
        control.pause()
        control.resumes_within(0)
        now[0] += 3600
        control.resume()
    assert [event.frames_per_second for event in shown] == [2, 4], "10 in 5 s, 40 in 10 s"
    assert [event.seconds_left for event in shown] == [45, 15], "90 and 60 are left"


class Coming:
    """A picture of a tile that comes when it is let."""

    here: ClassVar[list[bool]] = []

    def __init__(self, tile: torch.Tensor, longest_side: int) -> None:
        self.number = len(Coming.here)
        Coming.here.append(False)

    @property
    def is_here(self) -> bool:
        return Coming.here[self.number]

    def picture(self) -> Picture:
        Coming.here[self.number] = True
        return Picture(size=Size(1, 1), rgb=bytes(3 * [self.number]))


def test_pictures_of_tiles_are_emitted_in_order_when_they_have_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress, "ComingPicture", Coming)
    monkeypatch.setattr(Coming, "here", [])
    shown: list[TileDone] = []
    context: Any = SimpleNamespace(
        events=SimpleNamespace(emit=shown.append),
        plan=SimpleNamespace(enlarged=None),
        job_id="job",
        media=a_media(),
        pictures=True,
        picture_due=lambda: False,
    )
    tiles = ShownTiles(context)

    def show(index: int, count: int = 5) -> list[int]:
        box = Box(0, 0, 4, 4)
        tiles.show(torch.zeros(3, 4, 4), box, Size(4, 4), frame=0, index=index, tiles=count)
        return [event.tile for event in shown]

    assert show(0) == []
    assert show(1) == []
    Coming.here[0] = True
    assert show(2) == [0]
    assert show(3) == [0, 1]  # at most two are waited for
    tiles.finish()
    assert [event.tile for event in shown] == [0, 1, 2, 3]
    assert [event.picture.rgb[0] for event in shown if event.picture] == [0, 1, 2, 3]
    assert show(0, count=1)[-1] == 0  # without a picture, at once
    assert shown[-1].picture is None
