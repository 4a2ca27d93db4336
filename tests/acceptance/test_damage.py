"""The program's own result, damaged by FFmpeg in six ways: `verify` names each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.helpers.program import NEEDS_FFMPEG, ffmpeg, run, upscale

pytestmark = [pytest.mark.slow, NEEDS_FFMPEG]
_AGAIN = ("-c:v", "libx264", "-preset", "fast", "-crf", "14", "-c:a", "copy")
_ALL = ("-map", "0", "-map_chapters", "0")
_TAGGED = ("-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709")
_KEPT = (
    *_ALL,
    *_AGAIN,
    *_TAGGED,
    "-color_range",
    "tv",
    "-fps_mode",
    "passthrough",
    "-enc_time_base",
    "-1",
)


@pytest.fixture(scope="module", params=[".mkv", ".mp4"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("damage")
    source, result = (folder / f"{name}{request.param}" for name in ("source", "result"))
    ffmpeg(
        *("-f", "lavfi", "-i", "testsrc2=size=192x108:rate=25:duration=4"),
        *("-f", "lavfi", "-i", "sine=440:sample_rate=48000:duration=4"),
        *("-f", "lavfi", "-i", "sine=880:sample_rate=48000:duration=4"),
        *("-map", "0", "-map", "1", "-map", "2", "-c:v", "libx264", "-c:a", "aac"),
        *(*_TAGGED, "-color_range", "tv", source),
    )
    upscale(source, result)
    assert verdict(source, result) == (0, {})
    return [source, result]


def verdict(source: Path, result: Path) -> tuple[int, dict[str, str]]:
    """Exit status, and the failed checks with their messages."""
    ended = run("verify", source, result, "--json")
    failed = re.findall(r'"code": "([a-z-]+)", "passed": false, "message": "([^"]+)"', ended.out)
    return ended.status, dict(failed)


def damaged(pair: list[Path], *words: str | Path) -> tuple[int, dict[str, str]]:
    source, result = pair
    target = result.with_name(f"damaged{result.suffix}")
    ffmpeg("-i", result, *words, target)
    return verdict(source, target)


def test_dropped_frame(pair: list[Path]) -> None:
    words = ("-vf", r"select='not(eq(n\,40))',setpts=N/25/TB+STARTPTS", *_KEPT)
    status, failed = damaged(pair, *words)
    assert status == 1
    assert "Frame 40 at 00:00:01.600 is missing" in failed["frame-order"]
    assert set(failed) == {"frame-count", "frame-order", "time-stamps"}


def test_doubled_frame(pair: list[Path]) -> None:
    words = ("-vf", r"loop=loop=1:size=1:start=41,setpts=N/25/TB+STARTPTS", *_KEPT)
    status, failed = damaged(pair, *words)
    assert status == 1
    assert "Frame 40 at 00:00:01.600 is shown twice" in failed["frame-order"]
    assert set(failed) == {"frame-count", "frame-order", "time-stamps"}


def test_wrong_tags(pair: list[Path]) -> None:
    words = ("-c", "copy", *_ALL, "-bsf:v", "h264_metadata=matrix_coefficients=6")
    status, failed = damaged(pair, *words, "-colorspace", "smpte170m")
    assert status == 1
    assert "matrix is smpte170m instead of bt709" in failed["tags"]
    assert set(failed) == {"tags"}


def test_missing_track(pair: list[Path]) -> None:
    status, failed = damaged(pair, "-map", "0:v", "-map", "0:a:0", "-c", "copy")
    assert status == 1
    assert "sound track 2" in failed["streams"]
    assert set(failed) == {"streams"}


@pytest.mark.parametrize(("shift", "way"), [("0.08", "80 ms late"), ("-0.08", "80 ms early")])
def test_shifted_sound(pair: list[Path], shift: str, way: str) -> None:
    words = ("-itsoffset", shift, "-i", pair[1], "-map", "0:v", "-map", "1:a", "-c", "copy")
    status, failed = damaged(pair, *words)
    assert status == 1
    assert way in failed["sound-timing"] or way.replace("80", "79") in failed["sound-timing"]
    assert set(failed) == {"sound-timing"}


def test_black_second(pair: list[Path]) -> None:
    words = ("-vf", r"drawbox=color=black:t=fill:enable='between(n\,50\,74)'", *_KEPT)
    status, failed = damaged(pair, *words)
    assert status == 1
    assert "00:00:02.000 to 00:00:02.960 (frames 50 to 74) is black" in failed["black"]
    assert set(failed) == {"black"}
