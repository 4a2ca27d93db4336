from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from engine.bench.timing.profiler import peak_bytes, traced
from engine.core.errors import OutputUnwritable

_MIB = 2**20


def test_the_peak_is_what_tensors_take_at_once() -> None:
    def work() -> torch.Tensor:
        first = torch.zeros(4 * _MIB, dtype=torch.uint8)
        second = first + 1  # 8 MiB at once
        del first
        return second + 1  # still 8

    for _ in range(2):
        assert peak_bytes(work, "cpu") == pytest.approx(8 * _MIB, rel=1e-4)
    kept = [torch.zeros(_MIB)]  # does not count
    assert peak_bytes(lambda: kept.clear() or torch.zeros(1024), "cpu") < _MIB


@pytest.mark.gpu
def test_the_peak_of_a_gpu() -> None:
    found = peak_bytes(lambda: torch.zeros(8 * _MIB, dtype=torch.uint8, device="cuda") + 1, "cuda")
    assert found == 16 * _MIB


def test_a_trace_has_the_operators_and_no_file_names(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    with traced(path):
        torch.ones(8, 8) @ torch.ones(8, 8)
    text = path.read_text(encoding="utf-8")
    names = {event.get("name") for event in json.loads(text)["traceEvents"]}
    assert "aten::mm" in names
    assert str(tmp_path) not in text
    assert str(Path.home()) + "/" not in text
    with pytest.raises(OutputUnwritable), traced(tmp_path / "none" / "trace.json"):
        pytest.fail("an unwritable file is reported before anything runs")
