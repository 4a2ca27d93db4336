"""The commands on the real engine: short clips, no model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.cli.main import main
from tests.helpers.clips import Clip, make_clip


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    path = tmp_path / "clip.mp4"
    make_clip(path, Clip(frames=6, audio_tracks=1))
    return path


def test_a_film_goes_through_and_is_proved(clip: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["upscale", str(clip), "--model", "none", "--height", "128", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    report = lines[-1]
    assert report["event"] == "Report"
    assert report["passed"] is True
    assert (report["frames_in"], report["frames_out"]) == (6, 6)
    result = clip.with_name("clip_128p.mp4")
    assert Path(report["output"]) == result
    assert main(["verify", str(clip), str(result)]) == 0
    assert main(["upscale", str(clip), "--model", "none", "--height", "128"]) == 1
    assert "error[output-exists]" in capsys.readouterr().err
    assert main(["resume"]) == 0
    assert "No job is unfinished." in capsys.readouterr().out


def test_a_missing_source_and_an_unknown_case_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["upscale", str(tmp_path / "none.mp4")]) == 1
    assert "error[source-missing]" in capsys.readouterr().err
    assert main(["bench", "flying"]) == 1
    assert "error[settings-error]: There is no case 'flying'." in capsys.readouterr().err
