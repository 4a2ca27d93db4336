"""Times, and peaks of the GPU's memory, stage by stage."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from threading import Thread

import pytest

from engine.hardware import stage_meter, torch_memory
from engine.hardware.stage_meter import StageMeter, Waits
from engine.protocol.report import MemoryPeak


def peak(requested: int, allocated: int, reserved: int, used: int) -> MemoryPeak:
    return MemoryPeak(requested=requested, allocated=allocated, reserved=reserved, used=used)


def test_a_stage_has_the_largest_of_its_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = (0, 0, 0, 0), (4, 5, 7, 9), (8, 8, 9, 9), (4, 4, 9, 11)
    found = iter([peak(*each) for each in figures])
    monkeypatch.setattr(torch_memory, "take_peak", lambda: next(found))
    meter = StageMeter()
    meter.restart()
    for stage in ("encode", "decode", "encode"):
        meter.end(stage)
    assert meter.peaks == {
        "encode": peak(4, 5, 9, 11),
        "decode": peak(8, 8, 9, 9),
    }


def test_parts_of_a_stage_have_peaks_of_their_own_and_count_for_the_stage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stages, parts = iter([0, 3, 2, 5]), iter([4, 9, 6, 8, 7, 1, 1, 2])
    monkeypatch.setattr(torch_memory, "take_peak", lambda: peak(next(stages), 0, 0, 0))
    monkeypatch.setattr(torch_memory, "take_tensor_peak", lambda: peak(next(parts), 0, 0, 0))
    meter = StageMeter()
    meter.restart()
    for name in ("in", "out", "in"):
        stage_meter.end_part(name)
    meter.end("decode")
    stage_meter.end_part("low")
    meter.end("encode")
    for name in ("out", "in", "in", "in", "out"):  # the fifth of "in" is not measured
        stage_meter.end_part(name)
    meter.end("decode")
    assert meter.parts == {"decode": {"in": 6, "out": 9}, "encode": {"low": 8}}
    assert {name: one.requested for name, one in meter.peaks.items()} == {"decode": 9, "encode": 8}
    assert next(parts, None) is None


def test_parts_count_for_the_meter_that_began_last_in_their_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch_memory, "take_peak", lambda: peak(1, 1, 1, 1))
    monkeypatch.setattr(torch_memory, "take_tensor_peak", lambda: peak(2, 2, 2, 0))
    first, second = StageMeter(), StageMeter()
    first.restart()
    second.restart()
    other = Thread(target=stage_meter.end_part, args=("elsewhere",))
    other.start()
    other.join()
    stage_meter.end_part("here")
    for meter in (first, second):
        meter.end("decode")
    assert (first.parts, second.parts) == ({}, {"decode": {"here": 2}})


def test_nothing_is_measured_without_a_gpu() -> None:
    meter = StageMeter()
    meter.restart()
    stage_meter.end_part("in")
    meter.end("encode")
    assert (meter.peaks, meter.parts) == ({}, {})


@dataclass
class Reached:
    """Stands in for an event of a GPU, `at_ms` on its clock."""

    at_ms: float
    is_reached: bool = False
    is_awaited: bool = False

    def query(self) -> bool:
        return self.is_reached

    def synchronize(self) -> None:
        self.is_reached = self.is_awaited = True

    def elapsed_time(self, later: Reached) -> float:
        return later.at_ms - self.at_ms


def meter_of(
    monkeypatch: pytest.MonkeyPatch,
    events: Iterable[Reached | None],
    host: Iterable[float],
    work: Iterable[float],
) -> StageMeter:
    """A meter that is given these times: of the GPU, of the host, and of its work."""
    given, hosts, works = iter(events), iter(host), iter(work)
    monkeypatch.setattr(torch_memory, "timing_event", lambda: next(given))
    monkeypatch.setattr(stage_meter.time, "monotonic", lambda: next(hosts))
    return StageMeter(lambda: next(works))


def test_times_are_those_of_the_gpu_and_nothing_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events = [Reached(at) for at in (0.0, 1000.0, 5000.0, 5500.0)]
    seconds = (0.0, 0.1, 0.2, 0.3)  # the host is ahead
    meter = meter_of(monkeypatch, events, seconds, seconds)
    meter.restart()
    meter.end("encode")
    meter.end("decode")
    assert meter.seconds() == {}
    events[1].is_reached = True
    meter.end("encode")
    assert meter.seconds() == {"encode": 1.0}
    assert not any(event.is_awaited for event in events)
    events[2].is_reached = True
    assert meter.seconds(wait=True) == {"encode": 1.5, "decode": 4.0}


def test_milliseconds_between_readings_of_two_clocks_are_no_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events = [Reached(at, is_reached=True) for at in (0.0, 10.0, 20.0)]
    meter = meter_of(monkeypatch, events, (0.0, 0.012, 0.02), (0.0, 0.01, 0.02))
    meter.restart()
    meter.end("encode")
    meter.end("decode")
    assert meter.seconds() == {"encode": 0.01, "decode": 0.01}


@pytest.mark.parametrize("events", [(None, None), (Reached(0.0), Reached(10_000.0, True))])
def test_a_pause_is_no_time_of_a_stage(
    monkeypatch: pytest.MonkeyPatch, events: tuple[Reached | None, ...]
) -> None:
    meter = meter_of(monkeypatch, events, (100.0, 110.0), (50.0, 52.0))
    meter.restart()
    meter.end("encode")
    assert meter.seconds() == {"encode": 2.0}


def test_another_try_adds_its_times_without_what_was_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = (0.0, 1.0, 20.0, 22.0)
    meter = meter_of(monkeypatch, (None,) * 4, seconds, seconds)
    for _ in range(2):
        meter.restart()
        meter.end("encode")
    meter.add("read", 5.0)
    assert meter.seconds() == {"encode": 3.0, "read": 5.0}


def test_the_device_waits_for_what_it_waited_for_longer() -> None:
    waits = Waits()
    assert waits.of({"decode": 1.0, "read": 50.0}) == ("", 0.0)
    assert waits.of({"decode": 6.0, "wait-write": 4.0}) == ("", 0.0), "too early to say"
    found, share = waits.of({"decode": 7.0, "wait-write": 4.0, "wait-read": 1.0, "write": 90.0})
    assert (found, share) == ("write", pytest.approx(5 / 11))
    busy = {"decode": 17.0, "wait-write": 4.5, "wait-read": 1.0}
    assert waits.of(busy) == ("", 0.0), "95 % of the last ten seconds"
    found, share = waits.of(busy | {"wait-read": 13.5})
    assert (found, share) == ("read", pytest.approx(1.0))
