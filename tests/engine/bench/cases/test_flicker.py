"""Case `flicker`: of Lite on the sample film, and of a result that exists."""

from pathlib import Path

import pytest

from engine.bench.cases import flicker
from engine.bench.options import BenchOptions
from engine.bench.run import run
from engine.core.errors import SettingsError, SourceMissing
from tests.helpers.clips import make_clip


def test_lite_flickers_less_with_steadiness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flicker, "_QUICK_FRAMES", 3)
    _, *rows = run(["flicker"], options=BenchOptions(quick=True))
    assert [(row["shot"], row["treatment"], row["steadiness"]) for row in rows] == [
        (shot, treatment, steadiness)
        for shot in ("still", "moving")
        for treatment in ("faithful", "restore")
        for steadiness in ("off", "mild")
    ]
    for off, mild in zip(rows[::2], rows[1::2], strict=True):
        assert mild["flicker"] < 0.7 * off["flicker"]
        assert mild["psnr_db"] >= off["psnr_db"] - 0.05
        assert mild["cpu_ms_a_frame"] > 0


def test_a_result_is_measured_next_to_its_source(tmp_path: Path) -> None:
    film = make_clip(tmp_path / "film.mp4", frames=4)
    options = BenchOptions(clip=film, result=film)
    _, source, result = run(["flicker"], options=options)
    assert (source["film"], result["film"], result["frames"]) == ("source", "result", 4)
    assert source["flicker"] == result["flicker"]
    with pytest.raises(SettingsError, match="No clip"):
        run(["flicker"], options=BenchOptions(result=film))
    with pytest.raises(SourceMissing):
        run(["flicker"], options=BenchOptions(clip=film, result=tmp_path / "none.mkv"))
