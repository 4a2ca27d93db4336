"""The timeline as it is read and clicked."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from app.preview.timeline import FilmClock, Timeline, clock, grouped
from app.theme import tokens
from engine.protocol.media import MediaInfo


@pytest.fixture
def timeline(qtbot: QtBot, media: MediaInfo) -> Timeline:
    """Ten seconds at 25 frames a second."""
    timeline = Timeline()
    qtbot.addWidget(timeline)
    timeline.resize(640, 90)
    timeline.set_film(FilmClock.of(media))
    timeline.show()
    return timeline


def _click(qtbot: QtBot, timeline: Timeline, step: float) -> float:
    point = QPoint(round(timeline.strip.x_of(step)), timeline.strip.height() // 2)
    with qtbot.waitSignal(timeline.seconds_chosen) as chosen:
        qtbot.mouseClick(timeline.strip, Qt.MouseButton.LeftButton, pos=point)
    return float(chosen.args[0])


def test_a_click_says_the_seconds_of_the_frame_below_it(timeline: Timeline, qtbot: QtBot) -> None:
    seconds = _click(qtbot, timeline, 125.5)
    assert seconds == pytest.approx(5.0, abs=0.04)
    assert int(seconds * 25) == timeline.strip.value() == 125


def test_dragging_says_every_frame_on_the_way(timeline: Timeline, qtbot: QtBot) -> None:
    heard: list[float] = []
    timeline.seconds_chosen.connect(heard.append)
    strip = timeline.strip
    qtbot.mousePress(strip, Qt.MouseButton.LeftButton, pos=QPoint(round(strip.x_of(50)), 10))
    for step in (100, 150):
        qtbot.mouseMove(strip, QPoint(round(strip.x_of(step)), 10))
    qtbot.mouseRelease(strip, Qt.MouseButton.LeftButton)
    assert heard == pytest.approx([2.0, 4.0, 6.0], abs=0.05)


def test_keys_go_by_frames_seconds_and_ends(timeline: Timeline, qtbot: QtBot) -> None:
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


def test_moving_the_playhead_from_outside_asks_for_nothing(
    timeline: Timeline, qtbot: QtBot
) -> None:
    with qtbot.assertNotEmitted(timeline.seconds_chosen):
        timeline.set_step(77)
    assert timeline.strip.value() == 77


def test_frame_and_time_are_written_with_grouped_digits(timeline: Timeline) -> None:
    timeline.set_film(FilmClock(steps=2940, rate=Fraction(24000, 1001), counts_frames=True))
    timeline.set_step(1203)
    label = timeline.findChild(QLabel, "positionLabel")
    assert label is not None
    assert label.text().replace("\u202f", " ") == "1 204 / 2 940 · 00:00:50.17"


def test_the_finished_part_is_green(timeline: Timeline) -> None:
    timeline.set_finished(125, is_running=True)
    image = timeline.strip.grab().toImage()
    y = image.height() // 2
    done = image.pixelColor(round(timeline.strip.x_of(60)), y)
    waiting = image.pixelColor(round(timeline.strip.x_of(200)), y)
    assert done.green() > done.red() + 20
    assert waiting.name().upper() == tokens.current().surface_3


def test_what_is_cut_off_has_handles_and_times(timeline: Timeline) -> None:
    timeline.set_trim(2.0, 8.0)
    assert timeline.strip.span == (50, 200)
    image = timeline.strip.grab().toImage()
    handle = image.pixelColor(round(timeline.strip.x_of(50)) - 3, image.height() // 2)
    assert handle.lightness() > 200
    timeline.set_finished(150, is_running=False)
    beyond = timeline.strip.grab().toImage().pixelColor(round(timeline.strip.x_of(225)), 18)
    assert beyond.green() < beyond.red() + 20


def test_every_frame_is_asked_for_inside_itself() -> None:
    film = FilmClock(steps=3000, rate=Fraction(24000, 1001), counts_frames=True)
    for step in range(0, 3000, 7):
        seconds = film.seconds_to_ask(step)
        assert int(Fraction(seconds) * film.rate) == step
        assert film.step_at(round(film.seconds_of(step), 3)) == step  # as containers round


def test_films_without_a_rate_count_milliseconds(media: MediaInfo) -> None:
    video = replace(media.video, frame_rate=None, frame_count=0, duration=Fraction(5, 2))
    film = FilmClock.of(replace(media, video=video))
    assert not film.counts_frames
    assert (film.steps, film.seconds) == (2500, 2.5)


def test_stills_have_one_step(media: MediaInfo) -> None:
    assert FilmClock.of(replace(media, kind="image")).steps == 1


def test_clock_never_shows_a_time_that_has_not_come() -> None:
    assert clock(50.219) == "00:00:50.21"
    assert clock(3600.0) == "01:00:00.00"
    assert clock(0.29) == "00:00:00.29"
    assert grouped(1234567) == "1\u202f234\u202f567"
