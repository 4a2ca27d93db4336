from dataclasses import replace
from pathlib import Path

import pytest

from engine.bench.cases import video
from engine.bench.run import BenchOptions, run
from engine.core.errors import SettingsError, SourceMissing
from engine.core.geometry import Size
from engine.models.seedvr2.dit.random_dit import MIDDLE
from tests.helpers.clips import make_clip


def test_lite_flickers_less_with_steadiness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(video, "_QUICK_FLICKER_FRAMES", 3)
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


@pytest.mark.extended
def test_each_stream_has_a_row_next_to_whole_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    tile = Size(176, 80)
    tiles = {"encode_tile": tile, "decode_tile": tile, "encode_span": 2, "decode_span": 2}
    monkeypatch.setitem(MIDDLE, "3b", replace(MIDDLE["3b"], layers=2, separate_layers=1))
    monkeypatch.setattr(video, "_STREAM_SIZE", Size(128, 32))
    monkeypatch.setattr(video, "_QUICK_STREAM_FRAMES", 9)
    streams_of_test = {"whole frames": video._STREAMS["whole frames"], "tiles": tiles}
    monkeypatch.setattr(video, "_STREAMS", streams_of_test)
    whole, in_tiles = video.stream_rows(BenchOptions(quick=True, device="cpu", threads=1))
    assert (whole["time"], whole["operations"]) == (1, 1)
    assert in_tiles["operations"] > 1.05
    assert in_tiles["time_of_operations"] == in_tiles["time"] / in_tiles["operations"]
