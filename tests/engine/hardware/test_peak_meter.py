"""Peaks of the GPU's memory, stage by stage."""

from __future__ import annotations

import pytest

from engine.hardware import torch_memory
from engine.hardware.peak_meter import MeasuredPeak, PeakMeter


def test_a_stage_has_the_largest_of_its_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([(0, 0, 0), (5, 7, 9), (8, 9, 9), (4, 9, 11)])
    monkeypatch.setattr(torch_memory, "take_peak", lambda: next(found))
    meter = PeakMeter()
    meter.restart()
    for stage in ("encode", "decode", "encode"):
        meter.end(stage)
    assert meter.peaks == {
        "encode": MeasuredPeak(allocated=5, reserved=9, used=11),
        "decode": MeasuredPeak(allocated=8, reserved=9, used=9),
    }


def test_nothing_is_measured_without_a_gpu() -> None:
    meter = PeakMeter()
    meter.restart()
    meter.end("encode")
    assert meter.peaks == {}
