from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QKeyEvent
from pytestqt.qtbot import QtBot

from app.actions import Actions
from app.preview.playback import Playback, backwards, growing
from app.preview.preview_view import PreviewView
from app.preview.scene import Mode
from engine.core.file_access import missing_source
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan
from tests.app.preview.test_player import FakeFrame, _film

NO_MODIFIER = Qt.KeyboardModifier.NoModifier


@pytest.fixture
def view(
    qtbot: QtBot, media: MediaInfo, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PreviewView]:
    monkeypatch.setattr(Playback, "_opener", lambda self, film, side: _film(250))
    view = PreviewView(Actions())
    qtbot.addWidget(view)
    view.show_job("a", media, None)
    view.show_plan("a", plan)
    yield view
    view.playback.stop()


def _key(view: PreviewView, key: Qt.Key, *, is_down: bool = True) -> bool:
    kind = QEvent.Type.KeyPress if is_down else QEvent.Type.KeyRelease
    event = QKeyEvent(kind, key, NO_MODIFIER)
    return view.playback.take_key(event) if is_down else bool(view.playback.release_key(event))


def test_space_plays_and_halts(view, qtbot):
    _key(view, Qt.Key.Key_Space)
    assert view.playback.is_playing
    qtbot.waitUntil(lambda: view.timeline.strip.value() >= 2)
    _key(view, Qt.Key.Key_Space)
    assert not view.playback.is_playing
    with qtbot.waitSignal(view.frame_requested):  # the whole picture of that frame
        pass


def test_j_k_l_shuttle(view, qtbot):
    view.timeline.set_step(100)
    _key(view, Qt.Key.Key_L)
    _key(view, Qt.Key.Key_L)
    assert view.playback._speed == 2.0
    _key(view, Qt.Key.Key_K)
    assert not view.playback.is_playing
    at = view.timeline.strip.value()
    _key(view, Qt.Key.Key_J)
    qtbot.waitUntil(lambda: view.timeline.strip.value() < at - 2)
    assert view.playback._speed == -1.0


def test_arrows_go_a_frame(view, qtbot):
    view.timeline.set_step(100)
    _key(view, Qt.Key.Key_Right)
    assert view.timeline.strip.value() == 101
    _key(view, Qt.Key.Key_Left)
    assert view.timeline.strip.value() == 100


def test_i_and_o_choose_the_trim(view):
    heard = []
    view.playback.trim_chosen.connect(heard.append)
    view.pair.set_can_trim(True)
    view.timeline.set_trim(None, None)
    view.timeline.set_step(50)
    _key(view, Qt.Key.Key_I)
    _key(view, Qt.Key.Key_O)
    assert heard == [{"start": "1.9994", "stop": ""}, {"start": "", "stop": "2.0394"}]


def test_a_held_key_shows_the_original(view):
    view.playback.set_result(is_published=True)
    view.canvas.set_mode(Mode.SPLIT)
    _key(view, Qt.Key.Key_H)
    assert view.canvas.mode is Mode.FIRST
    _key(view, Qt.Key.Key_H, is_down=False)
    assert view.canvas.mode is Mode.SPLIT


def test_what_is_read_is_what_is_shown(view):
    assert list(view.playback._films()) == ["first"]
    view.playback.set_result(is_published=False)
    for mode, films in (
        (Mode.FIRST, ["first"]),
        (Mode.SECOND, ["second"]),
        (Mode.SIDE, ["first", "second"]),
    ):
        view.canvas.set_mode(mode)
        assert list(view.playback._films()) == films


def test_a_loop_begins_again_at_the_trim(view, qtbot):
    view.timeline._loop.setChecked(True)
    view.timeline.set_step(198)  # 2 s to 8 s are kept
    _key(view, Qt.Key.Key_Space)
    qtbot.waitUntil(lambda: 50 <= view.timeline.strip.value() < 60)


def test_another_job_stands_still(view, media):
    _key(view, Qt.Key.Key_Space)
    view.show_job("b", media, None)
    assert not view.playback.is_playing
    assert not _key(view, Qt.Key.Key_P)


def test_backwards_gives_every_frame_once():
    frames = list(backwards(_film(50))(-1.0))
    assert [frame.frame.number for frame in frames] == list(range(25, -1, -1))
    assert isinstance(frames[0].frame, FakeFrame)
    assert [frame.seconds for frame in frames] == sorted(frame.seconds for frame in frames)


def test_a_film_that_cannot_be_played_says_so(view, qtbot, monkeypatch):
    def frames(_start):
        raise missing_source(Path("film.wan"))
        yield

    monkeypatch.setattr(Playback, "_opener", lambda self, film, side: frames)
    _key(view, Qt.Key.Key_Space)
    qtbot.waitUntil(lambda: "film.wan" in view.timeline._title.whole)
    monkeypatch.setattr(Playback, "_opener", lambda self, film, side: _film(250))
    _key(view, Qt.Key.Key_Space)
    assert "film.wan" not in view.timeline._title.whole


def test_no_device_is_said_once(view):
    view.playback._tell_silence()
    assert "without sound" in view.timeline._title.whole
    view.timeline.set_note("")
    view.playback._tell_silence()
    assert "without sound" not in view.timeline._title.whole


def test_sound_is_that_of_the_source_at_its_own_speed(view, media, monkeypatch):
    heard = []
    monkeypatch.setattr(view.playback.sound, "play", lambda *about: heard.append(about[1]))
    monkeypatch.setattr(view.playback.sound, "stop", lambda: heard.append("stop"))
    assert media.audio_streams
    view.timeline.set_step(50)
    _key(view, Qt.Key.Key_L)
    _key(view, Qt.Key.Key_L)
    assert heard == [pytest.approx(2.0, abs=0.04), "stop"]


def test_a_growing_result_goes_on_when_pieces_come(monkeypatch):
    monkeypatch.setattr("app.preview.playback._LOOK_S", 0.0)
    made, looks = [10, 10, 20], iter([True, True, False])
    films = iter(made)
    frames = growing(lambda start: _film(next(films))(max(0.0, start)), lambda: next(looks))(0.0)
    assert [frame.number for frame in frames] == list(range(20))


def test_only_a_running_job_is_waited_for(view):
    view.timeline.set_finished(10, is_running=True)
    view.playback.set_result(is_published=False)
    own = view.pair.shown[1], "pieces"
    view.timeline.set_step(view.timeline.strip.span[0])
    assert view.playback._growing_opener(*own).__qualname__.startswith("growing")
    view.stopped()
    assert not view.timeline.is_running
    view.timeline.set_step(view.timeline.strip.span[0] + 10)
    assert not view.playback._growing_opener(*own).__qualname__.startswith("growing")
