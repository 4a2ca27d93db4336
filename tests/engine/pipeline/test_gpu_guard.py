"""What is done around a job on a card, with a card that is made up."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine.core.control import Control
from engine.core.errors import JobError
from engine.core.geometry import Size
from engine.hardware import gpu_reading, shared_memory
from engine.hardware.spill_guard import SURE_BYTES, Spilled
from engine.models.lite.plan import LitePlan
from engine.pipeline import gpu_guard
from engine.pipeline.context import JobContext, MemoryReleased
from engine.pipeline.gpu_guard import cared_for, expected_seconds
from engine.protocol.events import Event
from engine.protocol.plan import Plan, StagePlan
from tests.helpers.plans import a_media, a_plan

GIB = 2**30


class Ears:
    def emit(self, event: Event) -> None:
        """Nobody listens."""


def a_context(plan: Plan) -> JobContext:
    return JobContext(job_id="a", media=a_media(), plan=plan, control=Control(), events=Ears())


def on_card(**changes: Any) -> JobContext:
    frame = Size(640, 360)
    work = LitePlan(device="cuda", frame=frame, tile=Size(400, 200), clip_frames=2)
    return a_context(a_plan(work=work, device_budget_bytes=4 * GIB, **changes))


@pytest.fixture(autouse=True)
def card(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A card of 8 GiB on Windows that writes down what is done to it."""
    told: list[Any] = []
    about = SimpleNamespace(total_memory=8 * GIB)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _device: about)
    monkeypatch.setattr(
        torch.cuda, "set_per_process_memory_fraction", lambda share, _device: told.append(share)
    )
    monkeypatch.setattr(gpu_guard, "free_memory", lambda **how: told.append(how["libraries_too"]))
    monkeypatch.setattr(shared_memory, "own_bytes", lambda: 0)
    return told


@pytest.mark.parametrize("preserve", [False, True])
def test_a_job_on_a_card_is_limited_watched_and_given_back(card: list[Any], preserve: bool) -> None:
    context = on_card()
    with cared_for(context, preserve_vram=preserve):
        assert card == [0.5]
        assert context.releases_memory == preserve
        assert context.guard is not None
        assert context.gpu_users is gpu_reading.other_programs
    assert card == [0.5, 1.0, preserve]


def test_a_job_on_a_processor_is_left_alone(card: list[Any]) -> None:
    context = a_context(a_plan())
    with cared_for(context, preserve_vram=True):
        assert not context.releases_memory
        assert context.guard is None
    assert card == [True]


def test_where_nothing_is_moved_behind_our_back_nobody_watches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_memory, "own_bytes", lambda: None)
    context = on_card()
    with cared_for(context, preserve_vram=False):
        assert context.guard is None


def test_everything_is_given_back_after_an_error_too(card: list[Any]) -> None:
    with pytest.raises(JobError), cared_for(on_card(), preserve_vram=False):
        raise JobError("running")
    assert card == [0.5, 1.0, False]


def test_the_guard_sees_what_windows_says(monkeypatch: pytest.MonkeyPatch) -> None:
    context = on_card()
    with cared_for(context, preserve_vram=False):
        context.check("tile")
        monkeypatch.setattr(shared_memory, "own_bytes", lambda: SURE_BYTES)
        time.sleep(0.25)  # it does not ask more often
        with pytest.raises(Spilled):
            context.check("tile")


def test_a_pause_gives_back_only_where_that_was_asked_for() -> None:
    context = on_card()
    with cared_for(context, preserve_vram=True):
        context.check()
        context.control.pause()
        with pytest.raises(MemoryReleased):
            context.check()


def test_predicted_time_of_a_tile() -> None:
    stages = (StagePlan(stage="upscale", peak_bytes=0, seconds=100.0),)
    context = on_card(stages=stages)
    assert expected_seconds(context.plan) == {"tile": 100.0 / (250 / 2 * 4)}
    assert expected_seconds(replace(context.plan, stages=())) == {}
