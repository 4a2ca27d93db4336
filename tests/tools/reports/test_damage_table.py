from pathlib import Path

import numpy as np
import pytest

from tools.reports import damage_table
from tools.reports.damaged_clips import FRAMES, STILL, Clip, clips


def test_every_clip_has_its_row_and_its_figures(monkeypatch, capsys):
    rng = np.random.default_rng(1)
    damaged = rng.integers(0, 256, (FRAMES, 24, 32, 3), np.uint8)
    damaged[: STILL + 1] = damaged[0]  # the last one that stands sees the next
    original = damaged.repeat(2, axis=1).repeat(2, axis=2)
    still = Clip(name="doubled", original=original, damaged=damaged, stands=True)
    asked = []
    monkeypatch.setattr(damage_table, "clips", lambda film: asked.append(film) or [still])
    assert damage_table.main(["--film", "a.mp4"]) == 0
    head, _, row, flicker = capsys.readouterr().out.splitlines()
    assert asked == [Path("a.mp4")]
    assert head == "| clip | Lanczos | weights/lite_x2_restore | weights/lite_plus_x2_restore |"
    cells = [[float(v) for v in cell.split(",")] for cell in row.split("|")[2:5]]
    assert row.startswith("| doubled |")
    for db, alike, edges in cells:
        assert 5 < db < 40
        assert 0 < alike < 1
        assert 0 < edges < 1
    assert "0.00 | 0.00 | 0.00" in flicker  # nothing changes where the source stands


def test_missing_weights_are_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(damage_table, "clips", lambda film: [])
    assert damage_table.main(["--weights", str(tmp_path / "mine.safetensors")]) == 1
    assert "mine.safetensors" in capsys.readouterr().err


@pytest.mark.extended
@pytest.mark.programs("ffmpeg")
def test_damaged_clips_lie_over_their_originals():
    for clip in clips():
        small = clip.original[:, ::2, ::2].astype(float)
        error = np.abs(clip.damaged - small).mean()
        assert clip.damaged.shape == small.shape == (FRAMES, 180, 320, 3)
        assert 0.5 < error < 0.8 * np.abs(np.roll(clip.damaged, 6, axis=2) - small).mean()
        assert clip.stands == (clip.original[0] == clip.original[STILL - 1]).all()
