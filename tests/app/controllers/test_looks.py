"""A first look: one frame of the selected video by Lite, made unasked."""

import time
from dataclasses import replace
from fractions import Fraction

import pytest
from PySide6.QtGui import QColor, QImage

from app import desktop
from app.controllers.excerpts import is_black
from app.preview.scene import Mode
from engine.core.geometry import FrameSpan, Size
from engine.protocol import commands, events
from engine.protocol.excerpt import Excerpt, for_look
from engine.protocol.tasks import TaskKind
from tests.app.conftest import real_program
from tests.helpers.clips import Clip, make_clip
from tests.helpers.fakes import grey

LOOK = TaskKind.LOOK


def shown(bench, job_id: str, result: events.Picture | None = None, level: int = 128) -> None:
    """The engine answers the last request for a frame of a video."""
    pair = bench.window.preview.pair
    if not pair.is_answered and pair.asked_s is None:
        pair.ask_now()
    asked = [one for one in bench.asked(commands.ShowFrame) if one.job_id == job_id][-1]
    picture = grey(Size(480, 270), level)
    bench.emit(
        events.PreviewReady(
            job_id=job_id, frame=0, seconds=asked.seconds, source=picture, result=result
        )
    )


def rest(bench) -> list[commands.MakeLook]:
    """Let the timer of looks run out; all looks that were asked for."""
    bench.window.preview.pair.stop_asking()  # it would reset what has been answered
    bench.program.excerpts.rest.setInterval(0)
    bench.hear()
    return bench.asked(commands.MakeLook)


def seen(bench, name: str = "film.mp4") -> str:
    """A video that is selected, and whose picture is there."""
    job_id = bench.add(name)
    bench.select(job_id)
    bench.window.preview.pair.ask_now()
    shown(bench, job_id)
    return job_id


def look_of(bench, job_id: str) -> Excerpt:
    row = bench.program.queue.find(job_id)
    plan = replace(row.plan, start=Fraction(0), stop=Fraction(1, 24), span=FrameSpan(0, 1))
    settings = for_look(row.settings)
    return Excerpt(settings=settings, plan=plan, frames=1, frames_per_second=0, device_bytes=0)


def made(bench, job_id: str) -> None:
    """The look is made, and its frame read."""
    bench.tasks.finish(LOOK)
    bench.emit(events.ExcerptReady(job_id=job_id, excerpt=look_of(bench, job_id)))
    shown(bench, job_id, grey(Size(960, 540), 200))


@pytest.fixture
def moves(monkeypatch):
    monkeypatch.setattr(desktop, "allows_motion", lambda: True)


def test_the_selected_video_gets_a_look_once_its_picture_is_there(bench, moves):
    job_id = bench.add()
    assert rest(bench) == [], "the picture comes first"
    shown(bench, job_id)
    (asked,) = rest(bench)
    assert asked.job_id == job_id
    view, places = bench.window.preview, placed(bench)
    assert view.canvas.mode is Mode.FIRST
    made(bench, job_id)
    assert view.canvas.mode is Mode.SPLIT
    assert view.canvas.split > 0.9, "the sweep begins at the edge"
    assert placed(bench) == places, "nothing else moves"
    bench.window.preview.canvas._sweep.setCurrentTime(10_000)
    assert view.canvas.split == 0.5
    assert len(rest(bench)) == 1, "one look for one video"


def placed(bench) -> list[object]:
    names = ("viewBar", "compareCanvas", "timeline", "tryBar", "queueColumn", "choicesColumn")
    return [bench.find(name).geometry() for name in names]


def test_the_sweep_is_short_and_is_left_out_where_the_system_says_so(bench, monkeypatch):
    canvas = bench.window.preview.canvas
    assert canvas._sweep.duration() <= 600
    monkeypatch.setattr(desktop, "allows_motion", lambda: False)
    seen(bench)
    (asked,) = rest(bench)
    made(bench, asked.job_id)
    assert (canvas.mode, canvas.split) == (Mode.SPLIT, 0.5)


def test_the_user_takes_the_line_out_of_the_sweep(bench, moves):
    canvas = bench.window.preview.canvas
    seen(bench)
    (asked,) = rest(bench)
    made(bench, asked.job_id)
    canvas.set_split(0.3)
    bench.hear()
    assert canvas.split == 0.3


def test_another_selection_stops_a_look_and_it_is_made_when_the_video_is_back(bench):
    first = seen(bench)
    assert len(rest(bench)) == 1
    second = bench.add("other.mp4")
    bench.select(second)
    assert [(c.kind, c.subject) for c in bench.asked(commands.StopTask)] == [(LOOK, first)]
    bench.select(first)
    bench.window.preview.pair.ask_now()
    shown(bench, first)
    assert [one.job_id for one in rest(bench)] == [first, first]


def test_no_look_next_to_a_running_job_and_none_by_a_plan_that_keeps_the_size(bench):
    bench.start()
    other = bench.add("other.mp4")
    bench.select(other)
    bench.window.preview.pair.ask_now()
    shown(bench, other)
    assert rest(bench) == []
    bench.finish()
    bench.do("cancel")


def test_none_for_a_result_of_the_same_size(bench):
    job_id = seen(bench)
    bench.choose(model="none")
    bench.window.preview.pair.ask_now()
    shown(bench, job_id)
    assert rest(bench) == []


def test_start_shows_the_job_and_no_look(bench):
    seen(bench)
    assert len(rest(bench)) == 1
    bench.do("start")
    assert bench.window.preview.canvas.mode is Mode.FIRST
    assert len(rest(bench)) == 1


def test_the_frames_of_a_running_job_are_not_called_a_look(bench):
    view = bench.window.preview
    job_id = seen(bench)
    rest(bench)
    made(bench, job_id)
    assert view.pair.has_look
    bench.do("start")
    assert not view.pair.has_look
    assert view.canvas.mode is Mode.FIRST


def test_the_split_closes_where_there_is_no_look_unless_the_user_has_chosen_it(bench):
    view = bench.window.preview
    seen(bench)
    (asked,) = rest(bench)
    made(bench, asked.job_id)
    assert view.canvas.mode is Mode.SPLIT
    view.timeline.set_step(100)
    assert view.canvas.mode is Mode.FIRST
    view.timeline.set_step(0)
    view.pair.ask_now()
    shown(bench, asked.job_id, grey(Size(960, 540)))
    assert view.canvas.mode is Mode.SPLIT
    bench.press("segment-side-by-side")
    view.timeline.set_step(100)
    assert view.canvas.mode is Mode.SIDE


def test_a_try_replaces_a_look_and_keeps_the_split(bench):
    view = bench.window.preview
    seen(bench)
    (asked,) = rest(bench)
    made(bench, asked.job_id)
    assert bench.find("tryFrame").isEnabled(), "a look is not the job's own frame"
    bench.press("tryFrame")
    view.timeline.set_step(100)
    assert view.canvas.mode is Mode.SPLIT


def test_other_choices_get_another_look_and_one_that_fails_is_not_repeated(bench):
    job_id = seen(bench)
    rest(bench)
    bench.tasks.fail(LOOK)
    assert len(rest(bench)) == 1
    assert not bench.find("tryProblem").isVisible(), "it was made unasked"
    bench.choose(scale=4)
    bench.window.preview.pair.ask_now()
    shown(bench, job_id)
    assert len(rest(bench)) == 2


@pytest.mark.parametrize("model", ["lite", "seedvr2-7b"])
def test_a_look_is_called_a_preview_of_its_own_model(bench, model):
    view = bench.window.preview
    job_id = seen(bench)
    rest(bench)
    look = look_of(bench, job_id)
    own = bench.program.queue.find(job_id).plan
    other = replace(own, work=replace(own.work, model=model))
    bench.emit(events.PlanChosen(job_id=job_id, plan=other))
    bench.emit(events.ExcerptReady(job_id=job_id, excerpt=look))
    shown(bench, job_id, grey(Size(960, 540)))
    assert view.canvas.scene.labels[1] == "Lite preview 960×540"


def test_a_video_that_begins_black_is_looked_at_later(bench):
    job_id = bench.add()
    bench.window.preview.pair.ask_now()
    shown(bench, job_id, level=3)
    strip = bench.window.preview.timeline.strip
    assert strip.value() == 59, "a quarter of the video, as in the queue"
    shown(bench, job_id)
    (asked,) = rest(bench)
    assert 2.4 < asked.start < 2.5
    bench.window.preview.timeline.set_step(0)
    shown(bench, job_id, level=3)
    assert strip.value() == 0, "only once: the user has gone there"


@pytest.mark.parametrize(("level", "is_dark"), [(0, True), (12, True), (60, False)])
def test_black(level, is_dark):
    image = QImage(64, 36, QImage.Format.Format_RGB32)
    image.fill(QColor(level, level, level))
    assert is_black(image) is is_dark


@pytest.mark.extended
def test_a_dropped_video_shows_a_real_look(qapp, qtbot, tmp_path):
    source = make_clip(tmp_path / "film.mkv", Clip(frames=30, rate=Fraction(25)))
    with real_program(qapp, tmp_path / "data") as program:
        begin = time.process_time()
        program.controller.add_paths([source])
        view = program.window.preview
        qtbot.waitUntil(lambda: view.canvas.mode is Mode.SPLIT, timeout=60_000)
        assert view.pair.images[1].width() == 192
        assert {path.name for path in tmp_path.iterdir()} <= {"film.mkv", "data"}
        assert time.process_time() - begin < 20, "seconds of a CPU, from the drop on"
