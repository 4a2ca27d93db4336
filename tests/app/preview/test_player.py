import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from pytestqt.qtbot import QtBot

from app.preview.player import Lane, PlayClock, Player
from engine.core.geometry import Size
from engine.protocol.events import Picture
from tests.app.preview.conftest import flat

BOX = Size(64, 36)


class Time:
    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s


@dataclass
class FakeFrame:
    seconds: float
    number: int

    def picture(self, box: Size) -> Picture:
        return flat(8, 4, (self.number, 0, 0))


def _film(count: int = 50, gate: threading.Semaphore | None = None):
    def opened(start_s: float) -> Iterator[FakeFrame]:
        for number in range(round(start_s * 25), count):
            if gate is not None:
                gate.acquire()
            yield FakeFrame(number / 25, number)

    return opened


@pytest.fixture
def now() -> Time:
    return Time()


@pytest.fixture
def player(qtbot: QtBot, now: Time) -> Iterator[Player]:
    player = Player(now=now)
    player._timer.setInterval(10_000)  # the tests tick
    yield player
    player.stop()


def _read(qtbot: QtBot, player: Player, count: int = 1) -> None:
    lanes = player._playing.lanes.values()
    qtbot.waitUntil(lambda: all(len(lane._waiting) >= count or lane.has_ended for lane in lanes))


def _numbers(images) -> dict[str, int]:
    return {name: image.pixelColor(0, 0).red() for name, image in images.items()}


def test_the_clock_counts_seconds_of_the_film(now):
    clock = PlayClock(now)
    clock.set(4.0, 2.0)
    now.s = 1.5
    assert clock.position == pytest.approx(7.0)


def test_two_films_show_the_same_frame(player, now, qtbot):
    shown = []
    player.shown.connect(lambda seconds, images: shown.append((seconds, _numbers(images))))
    player.play({"source": _film(), "result": _film()}, 0.4, 1.0, BOX)
    for _ in range(6):
        _read(qtbot, player)
        player.tick()
        now.s += 0.04
    assert shown[0] == (0.4, {"source": 10, "result": 10})
    assert all(pair["source"] == pair["result"] for _, pair in shown)
    assert [pair["source"] for _, pair in shown] == [10, 11, 12, 13, 14, 15]
    assert player.counts.dropped == 0


def test_a_film_that_is_slow_holds_the_other_back(player, now, qtbot):
    gate = threading.Semaphore(1)
    shown = []
    player.shown.connect(lambda seconds, images: shown.append(_numbers(images)))
    player.play({"source": _film(), "result": _film(50, gate)}, 0.0, 1.0, BOX)
    _read(qtbot, player)
    player.tick()
    now.s = 0.2
    player.tick()
    assert shown == [{"source": 0, "result": 0}]
    gate.release(1000)


def test_frames_that_are_late_are_dropped_and_counted(player, now, qtbot):
    player.play({"source": _film()}, 0.0, 1.0, BOX)
    _read(qtbot, player, 4)
    player.tick()
    now.s = 0.12
    _read(qtbot, player, 4)
    player.tick()
    assert player.counts.shown == 2
    assert player.counts.dropped == 2


def test_late_frames_become_no_picture(qtbot):
    converted = []

    class Counted(FakeFrame):
        def picture(self, box: Size) -> Picture:
            converted.append(self.number)
            return super().picture(box)

    frames = (Counted(number / 25, number) for number in range(50))
    lane = Lane(frames, BOX, lambda: 1.0)
    lane.thread.start()
    qtbot.waitUntil(lambda: len(lane._waiting) == 4)
    lane.stop()
    assert lane.skipped >= 22
    assert converted[1] >= 23


def test_the_clock_waits_for_what_cannot_be_read_in_time(player, now, qtbot):
    gate = threading.Semaphore(1)
    player.play({"source": _film(50, gate)}, 0.0, 1.0, BOX)
    _read(qtbot, player)
    player.tick()
    now.s = 5.0
    player.tick()
    assert player.position == pytest.approx(0.25)
    gate.release(1000)


def test_the_end_stops_and_says_so(player, now, qtbot):
    player.play({"source": _film(2)}, 0.0, 1.0, BOX)
    _read(qtbot, player, 2)
    player.tick()
    now.s = 1.0
    lane = player._playing.lanes["source"]
    with qtbot.waitSignal(player.ended):
        player.tick()
        qtbot.waitUntil(lambda: lane.is_over)
        if player.is_playing:
            player.tick()
    assert not player.is_playing
