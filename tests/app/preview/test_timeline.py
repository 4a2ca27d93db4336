from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor
from pytestqt.qtbot import QtBot

from app.i18n import grouped
from app.preview.film_clock import FilmClock, clock
from app.preview.timeline import Timeline
from app.theme import tokens
from engine.protocol.media import MediaInfo
from tests.app.conftest import part
from tests.app.test_narrow_window import cut_off, settle


@pytest.fixture
def timeline(qtbot: QtBot, media: MediaInfo) -> Timeline:
    """Ten seconds at 25 frames a second."""
    timeline = Timeline()
    qtbot.addWidget(timeline)
    timeline.resize(640, 90)
    timeline.set_film(FilmClock.of(media))
    timeline.show()
    return timeline


def test_clicks_and_drags_say_the_seconds_of_the_frames_below(timeline, qtbot):
    point = QPoint(round(timeline.strip.x_of(125.5)), timeline.strip.height() // 2)
    with qtbot.waitSignal(timeline.seconds_chosen) as chosen:
        qtbot.mouseClick(timeline.strip, Qt.MouseButton.LeftButton, pos=point)
    (seconds,) = chosen.args
    assert seconds == pytest.approx(5.0, abs=0.04)
    assert int(seconds * 25) == timeline.strip.value() == 125
    heard, strip = [], timeline.strip
    timeline.seconds_chosen.connect(heard.append)
    qtbot.mousePress(strip, Qt.MouseButton.LeftButton, pos=QPoint(round(strip.x_of(50)), 10))
    for step in (100, 150):
        qtbot.mouseMove(strip, QPoint(round(strip.x_of(step)), 10))
    qtbot.mouseRelease(strip, Qt.MouseButton.LeftButton)
    assert heard == pytest.approx([2.0, 4.0, 6.0], abs=0.05)


def test_keys_go_by_frames_seconds_and_ends_and_code_asks_for_nothing(timeline, qtbot):
    strip = timeline.strip
    for key, step in (
        (Qt.Key.Key_Right, 1),
        (Qt.Key.Key_PageDown, 26),
        (Qt.Key.Key_Left, 25),
        (Qt.Key.Key_End, 249),
        (Qt.Key.Key_Home, 0),
    ):
        qtbot.keyClick(strip, key)
        assert strip.value() == step
    with qtbot.assertNotEmitted(timeline.seconds_chosen):
        timeline.set_step(77)
    assert timeline.strip.value() == 77


def test_the_finished_part_is_green_and_what_is_cut_off_has_handles(timeline):
    def colour(step: float, shift: int = 0) -> QColor:
        image = timeline.strip.grab().toImage()
        return image.pixelColor(round(timeline.strip.x_of(step)) + shift, image.height() // 2)

    timeline.set_finished(125, is_running=True)
    assert colour(60).green() > colour(60).red() + 20
    assert colour(200).name().upper() == tokens.current().surface_3
    timeline.set_trim(2.0, 8.0)
    assert timeline.strip.span == (50, 200)
    assert colour(50, shift=-3).lightness() > 200
    timeline.set_finished(150, is_running=False)
    assert colour(225).green() < colour(225).red() + 20


def test_every_frame_is_asked_for_inside_itself(media):
    film = FilmClock(steps=3000, rate=Fraction(24000, 1001), counts_frames=True)
    for step in range(0, 3000, 7):
        seconds = film.seconds_to_ask(step)
        assert int(Fraction(seconds) * film.rate) == step
        assert film.step_at(round(film.seconds_of(step), 3)) == step  # as containers round
    assert FilmClock.of(replace(media, kind="image")).steps == 1
    video = replace(media.video, frame_rate=None, frame_count=0, duration=Fraction(5, 2))
    film = FilmClock.of(replace(media, video=video))
    assert (film.counts_frames, film.steps, film.seconds) == (False, 2500, 2.5)  # milliseconds


def test_times_have_come_and_digits_are_grouped(timeline):
    timeline.set_film(FilmClock(steps=2940, rate=Fraction(24000, 1001), counts_frames=True))
    timeline.set_step(1203)
    label = part(timeline, "positionLabel")
    assert label.text().replace("\u202f", " ") == "1 204 / 2 940 · 00:00:50.17"
    assert clock(50.219) == "00:00:50.21"
    assert clock(3600.0) == "01:00:00.00"
    assert clock(0.29) == "00:00:00.29"
    assert grouped(1234567) == "1\u202f234\u202f567"


def test_handles_are_dragged_while_the_job_waits(timeline, qtbot):
    strip, left = timeline.strip, Qt.MouseButton.LeftButton
    heard = []
    timeline.span_chosen.connect(lambda first, stop: heard.append((first, stop)))

    def drag(begin: int, end: int) -> None:
        qtbot.mousePress(strip, left, pos=QPoint(round(strip.x_of(begin)), 10))
        qtbot.mouseMove(strip, QPoint(round(strip.x_of(end + 0.5)), 10))
        qtbot.mouseRelease(strip, left, pos=QPoint(round(strip.x_of(end + 0.5)), 10))

    drag(0, 50)
    assert (heard, strip.value()) == ([], 50)  # a job that has begun keeps its ends
    timeline.set_can_trim(True)
    drag(0, 50)
    drag(250, 199)
    assert heard == [pytest.approx((50, 250), abs=1), pytest.approx((50, 200), abs=1)]


def test_a_trim_is_read_back_as_the_same_frames(timeline):
    timeline.set_film(FilmClock(steps=3000, rate=Fraction(24000, 1001), counts_frames=True))
    for first, stop in ((1, 2), (7, 100), (333, 2999)):
        trim = timeline.trim_of(first, stop)
        timeline.set_trim(float(trim["start"]), float(trim["stop"]))
        assert timeline.strip.span == (first, stop)
    assert timeline.trim_of(0, 3000) == {"start": "", "stop": ""}


def test_where_the_result_begins_and_ends_is_whole_before_all_else(bench):
    bench.add()
    timeline = bench.window.preview.timeline
    for case in product(("en", "zh_CN"), (490, 680)):
        language, width = case
        bench.program.use_language(language)
        timeline.set_trim(1.0, 2.5)
        timeline.setFixedWidth(width)
        settle()
        trim = part(timeline, "trimLabel")
        assert trim.text() == trim.whole, case
        assert "00:00:02.50" in trim.whole, case
        assert "00:00:00.00" in part(timeline, "positionLabel").text(), case
        assert list(cut_off(timeline)) == []
        timeline.set_trim(None, None)
        settle()
        assert part(timeline, "positionLabel").text().startswith("1 / 240"), case
        assert part(timeline, "volumeSlider").isVisible(), case


def test_the_title_is_whole_or_gone(bench):
    bench.add()
    timeline = bench.window.preview.timeline
    timeline.set_trim(1.0, 2.5)
    seen = set()
    for width in (*range(560, 700, 6), *range(700, 560, -6)):
        timeline.setFixedWidth(width)
        settle()
        if timeline._title.isVisible():
            assert timeline._title.text() == "Timeline", width
        seen.add(timeline._title.isVisible())
    assert seen == {True, False}
