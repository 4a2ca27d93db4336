"""Try this frame, try 3 seconds: the bar over the picture."""

from dataclasses import replace
from fractions import Fraction

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QWidget

from app.preview.scene import Mode
from app.preview.try_bar import TryBar
from engine.core.errors import DiskFull
from engine.core.geometry import FrameSpan
from engine.protocol import commands, events
from engine.protocol.excerpt import Excerpt
from engine.protocol.tasks import TaskKind
from engine.settings.schema import JobSettings
from tests.app.conftest import part, real_program, texts
from tests.app.test_narrow_window import cut_off, settle
from tests.helpers.clips import Clip, make_clip

KIND = TaskKind.EXCERPT


def excerpt_of(bench, job_id: str, first: Fraction, stop: Fraction) -> Excerpt:
    row = bench.program.queue.find(job_id)
    plan = replace(row.plan, start=first, stop=stop, span=FrameSpan(0, 1))
    return Excerpt(
        settings=row.settings, plan=plan, frames=1, frames_per_second=0.0, device_bytes=0
    )


def made(bench, job_id: str, first: Fraction, stop: Fraction) -> None:
    """The engine has made a part, and the task ends."""
    excerpt = excerpt_of(bench, job_id, first, stop)
    bench.emit(events.ExcerptReady(job_id=job_id, excerpt=excerpt))
    bench.tasks.finish(KIND)


@pytest.fixture
def film(bench) -> str:
    """A film that waits, with its playhead at frame 24."""
    job_id = bench.add()
    bench.window.preview.timeline.set_step(24)
    return job_id


def test_this_frame_is_asked_for_and_shown_next_to_the_source(bench, film):
    view = bench.window.preview
    assert view.canvas.mode is Mode.FIRST
    bench.press("tryFrame")
    (asked,) = bench.asked(commands.MakeExcerpt)
    assert (asked.job_id, asked.seconds, asked.settings) == (film, 0.0, None)
    assert 1.0 < asked.start < 1.0 + 1 / 24
    assert view.canvas.mode is Mode.SPLIT
    assert not bench.find("tryFrame").isEnabled()
    assert not bench.find("trySeconds").isEnabled()
    view.pair.stop_asking()  # what follows is asked for by the try
    before = len(bench.asked(commands.ShowFrame))
    made(bench, film, Fraction(1), Fraction(1) + Fraction(1, 1000) * 41)
    assert [c.seconds for c in bench.asked(commands.ShowFrame)[before:]] == [asked.start]
    assert not bench.find("tryFrame").isEnabled(), "it was made"
    assert bench.find("trySeconds").isEnabled()
    view.timeline.set_step(30)
    assert bench.find("tryFrame").isEnabled()


def test_three_seconds_show_their_frames_and_can_be_stopped(bench, film):
    bench.press("trySeconds")
    assert [c.seconds for c in bench.asked(commands.MakeExcerpt)] == [3.0]
    assert bench.find("tryStop").isVisible()
    progress = events.TaskProgress(kind=KIND, subject=film, done=18, total=72)
    bench.emit(progress)
    assert "18 of 72 frames" in texts(bench.find("tryBar"))
    bench.press("tryStop")
    assert [(c.kind, c.subject) for c in bench.asked(commands.StopTask)] == [(KIND, "")]
    assert not bench.find("tryStop").isVisible()
    assert bench.find("trySeconds").isEnabled()


def test_no_button_moves_or_changes_when_one_is_pressed(bench, film):
    before = {
        name: bench.find(name).mapToGlobal(QPoint(0, 0)) for name in ("tryFrame", "trySeconds")
    }
    bench.press("trySeconds")
    for name, place in before.items():
        assert bench.find(name).mapToGlobal(QPoint(0, 0)) == place
    stop = bench.find("tryStop")
    right = bench.find("trySeconds")
    assert stop.mapToGlobal(QPoint(0, 0)).x() > right.mapToGlobal(QPoint(0, 0)).x() + right.width()


def test_the_bar_stays_inside_a_narrow_picture(qtbot):
    over = QWidget()
    qtbot.addWidget(over)
    bar = TryBar(over)
    over.resize(330, 240)
    over.show()
    bar.offer(is_still=False, has_result=False)
    bar.show_progress(18, 72)
    assert over.rect().contains(bar.geometry())
    stop = part(bar, "tryStop")
    assert bar.rect().contains(stop.geometry())
    over.resize(900, 240)
    bar.show_progress(19, 72)
    assert "19 of 72 frames" in texts(bar)


def test_a_failure_says_why_until_the_next_try(bench, film):
    bench.press("tryFrame")
    bench.tasks.fail(KIND, DiskFull("folder", folder="D:\\").info())
    assert "D:\\" in part(bench.window, "tryProblem").text()
    bench.press("tryFrame")
    assert not bench.find("tryProblem").isVisible()


@pytest.mark.parametrize("height", [432, 900])
def test_a_failure_that_was_read_can_be_closed(bench, film, height):
    bench.window.resize(910, height)
    bench.do("try_frame")
    bench.tasks.fail(KIND, DiskFull("folder", folder="D:\\").info())
    settle()
    assert list(cut_off(bench.find("tryBar"))) == []
    bench.press("tryClose")
    settle()
    assert not bench.find("tryProblem").isVisible()
    is_low = bench.find("tryMenu").isVisible()
    assert bench.find("tryBar").isVisible() != is_low, "nothing lies over a low picture"
    bench.window.preview.timeline.set_step(30)
    assert not bench.find("tryProblem").isVisible()


def test_every_view_without_a_result_says_how_to_get_one(bench, film):
    canvas = bench.window.preview.canvas
    for view in ("second", "split", "side-by-side", "difference"):
        bench.press(f"segment-{view}")
        assert '"Try this frame" renders it now.' in canvas.scene.missing_texts[1], view
        assert '"Try this frame"' in canvas.accessibleName(), view
        bench.press("tryFrame")
        assert '"Try this frame"' not in canvas.scene.missing_texts[1], "it is being made"
        bench.tasks.fail(KIND, DiskFull("folder", folder="D:").info())
        assert '"Try this frame"' in canvas.scene.missing_texts[1], view
        bench.press("tryClose")


def test_a_view_without_a_result_says_why_none_can_be_made_now(bench, film):
    bench.do("start")
    other = bench.add("other.mp4")
    bench.select(other)
    text = bench.window.preview.canvas.scene.missing_texts[1]
    assert "A video is being processed" in text
    assert '"Try this frame"' not in text


def test_other_choices_ask_for_another_try(bench, film):
    made(bench, film, Fraction(1), Fraction(2))
    assert not bench.find("tryFrame").isEnabled()
    bench.choose(scale=4)
    assert bench.find("tryFrame").isEnabled()


def test_nothing_is_tried_of_a_running_film_or_next_to_one(bench, film):
    bench.do("start")
    assert not bench.find("tryBar").isVisible()
    bench.add("other.mp4")
    view = bench.window.queue_column.view
    view.select(bench.program.queue.rows[1].job_id)
    bench.hear()
    assert bench.find("tryBar").isVisible()
    assert not bench.find("tryFrame").isEnabled()
    assert "being processed" in bench.find("tryFrame").toolTip()


def test_latents_are_not_tried(bench):
    bench.add("wan.latent")
    assert bench.program.queue.rows[0].media.holds_latents
    assert not bench.find("tryBar").isVisible()


def test_by_keyboard(bench, film, qtbot):
    qtbot.keyClick(bench.window, Qt.Key.Key_T, Qt.KeyboardModifier.ControlModifier)
    bench.hear()
    assert [c.seconds for c in bench.asked(commands.MakeExcerpt)] == [0.0]


def test_a_real_frame_is_seen_before_its_job(qapp, qtbot, tmp_path):
    source = make_clip(tmp_path / "film.mkv", Clip(frames=30, rate=Fraction(25)))
    with real_program(qapp, tmp_path) as program:
        settings = JobSettings(model="lite", treatment="faithful", crf=30)
        program.controller.add_file(source, settings=settings)
        view = program.window.preview
        bar = part(program.window, "tryBar")
        qtbot.waitUntil(bar.isVisible, timeout=30_000)
        part(program.window, "tryFrame").click()
        qtbot.waitUntil(lambda: not view.pair.images[1].isNull(), timeout=60_000)
        assert view.canvas.mode is Mode.SPLIT
        assert view.pair.images[1].width() == 192


def test_what_was_tried_is_played_when_its_film_is_selected_again(bench, film):
    bench.window.preview.timeline.set_step(0)
    made(bench, film, Fraction(0), Fraction(3))
    select = bench.window.queue_column.view.select
    for job_id in (bench.add("other.mp4"), film):
        select(job_id)
        bench.hear()
    assert bench.window.preview.playback._excerpt is not None


def test_space_plays_what_was_tried_next_to_the_source(bench, film, monkeypatch):
    view = bench.window.preview
    opened = []
    monkeypatch.setattr(view.playback, "_opener", lambda _film, side: opened.append(side) or iter)
    monkeypatch.setattr(view.playback.player, "play", lambda films, *_: None)
    bench.press("trySeconds")
    made(bench, film, Fraction(1), Fraction(4))
    view.playback.toggle()
    assert opened == ["source", "excerpt"]
    opened.clear()
    view.timeline.set_step(200)
    view.playback.toggle()
    assert opened == ["source"], "nothing was made there"


def test_in_a_low_window_nothing_lies_over_the_picture_and_all_can_be_tried(bench, film):
    bench.window.resize(910, 432)
    settle()
    bar, menu = bench.find("tryBar"), bench.find("tryMenu")
    assert not bar.isVisible()
    assert menu.isVisible()
    assert not bench.window.preview.canvas.isAncestorOf(menu)
    assert list(cut_off(bench.window.preview.bar)) == []
    frame, seconds, compare = menu.menu().actions()
    assert [one.text() for one in (frame, seconds, compare)] == [
        "Try this frame",
        "Try 3 seconds",
        "Compare presets …",
    ]
    place = menu.mapToGlobal(QPoint(0, 0)).x() + menu.width()
    seconds.trigger()
    bench.hear()
    settle()
    assert [c.seconds for c in bench.asked(commands.MakeExcerpt)] == [3.0]
    stop = bench.find("tryStop")
    assert stop.isVisible()
    assert stop.mapToGlobal(QPoint(0, 0)).x() >= place - menu.width()
    assert not frame.isEnabled()
    bench.window.resize(1440, 900)
    settle()
    assert bar.isVisible()
    assert bar.isAncestorOf(stop)
    bench.press("tryStop")
    assert not menu.isVisible()


def test_an_image_offers_no_seconds_no_samples_and_no_playback(bench):
    job_id = bench.add("photo.png")
    row = bench.program.queue.find(job_id)
    image = replace(row.media, kind="image", video=replace(row.media.video, frame_count=1))
    bench.emit(events.JobQueued(job_id=job_id, media=image))
    bench.window.preview.show_job(job_id, image, None)
    bench.program.excerpts.refresh()
    assert bench.find("tryFrame").isVisible()
    for name in ("trySeconds", "tryCompare"):
        assert not bench.find(name).isVisible()
    bench.do("try_seconds")
    assert bench.asked(commands.MakeExcerpt) == []
    bench.do("start")
    bench.finish()
    assert not bench.find("compareButton").isVisible()
