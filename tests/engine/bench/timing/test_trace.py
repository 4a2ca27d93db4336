from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from engine.bench.timing.trace import traced
from engine.core.errors import OutputUnwritable


def test_a_trace_has_the_operators_and_no_name_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    with traced(path):
        torch.ones(8, 8) @ torch.ones(8, 8)
    text = path.read_text(encoding="utf-8")
    names = {event.get("name") for event in json.loads(text)["traceEvents"]}
    assert "aten::mm" in names
    assert str(tmp_path) not in text
    assert str(Path.home()) + "/" not in text


def test_a_file_that_cannot_be_is_told_before_anything_is_measured(tmp_path: Path) -> None:
    begun = []
    with pytest.raises(OutputUnwritable), traced(tmp_path / "none" / "trace.json"):
        begun.append(True)
    assert not begun
