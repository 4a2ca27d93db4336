"""The self-test of the packed program: whatever goes wrong is in the file it writes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtGui import QColor, QImage

from app import smoke_test


def test_a_crash_and_a_wrong_fact_are_written_down_with_status_1(tmp_path, monkeypatch):
    def crash(*_: object) -> None:
        raise ImportError("a forgotten module")

    monkeypatch.setattr(smoke_test, "_try_program", crash)
    out = tmp_path / "new folder" / "result.json"
    assert smoke_test.main(["--out", str(out)]) == 1
    result = json.loads(out.read_text("utf-8"))
    assert result["ok"] is False
    assert "a forgotten module" in str(result["problems"])

    def look(seen: smoke_test.Findings, *_: object) -> None:
        seen.note("output_frames", 95, is_right=False)
        seen.note("tile_events", 24)

    monkeypatch.setattr(smoke_test, "_try_program", look)
    out = tmp_path / "result.json"
    assert smoke_test.run_smoke_test(out) == 1
    assert json.loads(out.read_text("utf-8"))["problems"] == ["output_frames is 95"]
    assert json.loads(out.read_text("utf-8"))["tile_events"] == 24


def test_resources_of_this_checkout_are_found_and_missing_ones_named(tmp_path, monkeypatch):
    seen = smoke_test.Findings()
    smoke_test._look_at_signatures(seen)
    assert seen.facts == {"signature": True}
    smoke_test._look_at_resources(seen)
    assert not seen.problems
    monkeypatch.setenv("UPREEL_RESOURCES", str(tmp_path))
    seen = smoke_test.Findings()
    smoke_test._look_at_resources(seen)
    assert "samples/upreel_sample.mp4" in str(seen.facts["missing_resources"])
    assert seen.problems


def test_an_unpainted_window_has_one_colour():
    image = QImage(300, 200, QImage.Format.Format_RGB32)
    image.fill(QColor("#14161A"))
    assert smoke_test.count_colours(image) == 1
    for x in range(300):
        image.setPixelColor(x, 60, QColor(x % 256, 80, 120))
    assert smoke_test.count_colours(image) >= smoke_test.FEWEST_COLOURS


@pytest.mark.slow
def test_this_checkout_passes_its_own_smoke_test(tmp_path):
    root, out = Path(__file__).parents[2], tmp_path / "result.json"
    command = [sys.executable, "main.py", "--smoke-test", "--out", str(out)]
    environment = os.environ | {"QT_QPA_PLATFORM": "offscreen"}
    done = subprocess.run(command, cwd=root, env=environment, check=False)
    assert done.returncode == 0, out.read_text(encoding="utf-8")
