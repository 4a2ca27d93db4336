"""Peaks of the GPU's memory, stage by stage."""

from __future__ import annotations

import pytest

from engine.hardware import torch_memory
from engine.hardware.peak_meter import PeakMeter
from engine.protocol.report import MemoryPeak


def peak(requested: int, allocated: int, reserved: int, used: int) -> MemoryPeak:
    return MemoryPeak(requested=requested, allocated=allocated, reserved=reserved, used=used)


def test_a_stage_has_the_largest_of_its_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = (0, 0, 0, 0), (4, 5, 7, 9), (8, 8, 9, 9), (4, 4, 9, 11)
    found = iter([peak(*each) for each in figures])
    monkeypatch.setattr(torch_memory, "take_peak", lambda: next(found))
    meter = PeakMeter()
    meter.restart()
    for stage in ("encode", "decode", "encode"):
        meter.end(stage)
    assert meter.peaks == {
        "encode": peak(4, 5, 9, 11),
        "decode": peak(8, 8, 9, 9),
    }


def test_nothing_is_measured_without_a_gpu() -> None:
    meter = PeakMeter()
    meter.restart()
    meter.end("encode")
    assert meter.peaks == {}
