"""A plan that does not hold any more, and one that is impossible, never say that the film fits."""

import dataclasses
from pathlib import Path

import pytest

from engine.core.errors import SettingsError
from engine.protocol import commands, events
from tests.app.conftest import Bench, texts


@pytest.fixture
def waiting(bench: Bench) -> Bench:
    """A film that waits; from now on the engine takes its time to plan."""
    job_id = bench.add()
    assert "Fits into memory" in texts(bench.window.decision)
    bench.job_id = job_id
    bench.patch.setattr(bench.engine, "_change", lambda _command: None)
    return bench


def can_start(bench: Bench) -> bool:
    """Whether button and shortcut of Start are on; both always are alike."""
    is_on = bench.find("primaryAction").isEnabled()
    assert bench.window.actions_["start"].isEnabled() == is_on
    return is_on


def answer(bench: Bench) -> None:
    made = dataclasses.replace(bench.engine.plans[bench.job_id])
    bench.emit(events.PlanChosen(job_id=bench.job_id, plan=made))


def test_from_the_first_change_to_the_new_plan_nothing_fits_and_nothing_starts(waiting):
    assert can_start(waiting)
    waiting.find("segment-x4").click()
    assert not can_start(waiting)  # before the choice is even sent
    assert "Fits into memory" not in texts(waiting.window.decision)
    assert "Planning …" in texts(waiting.window.decision)
    assert "Planning …" in waiting.find("primaryAction").toolTip()
    waiting.window.choices.flush()
    waiting.hear()
    assert not can_start(waiting)
    answer(waiting)
    assert can_start(waiting)
    assert "Fits into memory" in texts(waiting.window.decision)


def test_times_that_make_no_sense_say_why_and_nothing_starts(waiting):
    waiting.choose(start="0:02", stop="0:01")
    error = SettingsError("end-before-start").info()
    waiting.emit(events.PlanFailed(job_id=waiting.job_id, error=error))
    assert not can_start(waiting)
    shown = texts(waiting.window.decision)
    assert "The selected end is before the start." in shown
    assert "Fits into memory" not in shown
    assert "end is before" in waiting.find("primaryAction").toolTip()
    row = waiting.window.selected
    assert not row.can_start
    assert row.is_refused
    assert not waiting.find("tryFrame").isEnabled()
    waiting.choose(stop="0:04")
    answer(waiting)
    assert can_start(waiting)


def test_start_counts_the_films_that_it_starts(waiting):
    waiting.choose(start="0:02", stop="0:01")
    error = SettingsError("end-before-start").info()
    waiting.emit(events.PlanFailed(job_id=waiting.job_id, error=error))
    for name in ("one.mp4", "two.mp4"):
        waiting.program.controller.add_file(Path("films") / name)
    waiting.hear()
    assert waiting.find("primaryAction").text() == "Start queue (2)"


def test_another_film_that_waits_can_start_meanwhile(waiting):
    waiting.program.controller.add_file(Path("films") / "other.mp4")
    waiting.hear()
    waiting.find("segment-x4").click()
    waiting.hear()
    assert can_start(waiting)


def test_a_change_is_not_lost_when_another_film_is_selected_at_once(waiting):
    other = waiting.program.controller.add_file(Path("films") / "other.mp4")
    waiting.hear()
    waiting.window.queue_column.view.select(waiting.job_id)
    waiting.find("segment-x4").click()
    waiting.window.queue_column.view.select(other)
    waiting.hear()
    assert [c.job_id for c in waiting.asked(commands.ChangeJob)] == [waiting.job_id]
    assert waiting.program.queue.find(waiting.job_id).settings.scale == 4
    assert waiting.program.queue.find(other).settings.scale == 2
