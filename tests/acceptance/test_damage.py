"""The program's own result, damaged by FFmpeg in six ways: `verify` names each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.helpers.program import NEEDS_FFMPEG, ffmpeg, run, upscale

pytestmark = [pytest.mark.slow, NEEDS_FFMPEG]
_ALL = ("-map", "0", "-map_chapters", "0")
_TAGGED = ("-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709")
_AGAIN = "-c:v libx264 -preset fast -crf 14 -c:a copy -color_range tv"
_TIMES = "-fps_mode passthrough -enc_time_base -1"
_KEPT = (*_ALL, *_AGAIN.split(), *_TAGGED, *_TIMES.split())
_MATRIX = ("-bsf:v", "h264_metadata=matrix_coefficients=6", "-colorspace", "smpte170m")
_ORDER = {"frame-count", "frame-order", "time-stamps"}

# options of FFmpeg, the check whose message states it, a part of that message, failed checks
DAMAGES: tuple[tuple[tuple[str, ...], str, str, set[str]], ...] = (
    (
        ("-vf", r"select='not(eq(n\,40))',setpts=N/25/TB+STARTPTS", *_KEPT),
        "frame-order",
        "Frame 40 at 00:00:01.600 is missing",
        _ORDER,
    ),
    (
        ("-vf", r"loop=loop=1:size=1:start=41,setpts=N/25/TB+STARTPTS", *_KEPT),
        "frame-order",
        "Frame 40 at 00:00:01.600 is shown twice",
        _ORDER,
    ),
    (("-c", "copy", *_ALL, *_MATRIX), "tags", "matrix is smpte170m instead of bt709", {"tags"}),
    (("-map", "0:v", "-map", "0:a:0", "-c", "copy"), "streams", "audio track 2", {"streams"}),
    (
        ("-vf", r"drawbox=color=black:t=fill:enable='between(n\,50\,74)'", *_KEPT),
        "black",
        "is black at 00:00:02.000 to 00:00:02.960 (frames 50 to 74)",
        {"black"},
    ),
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


def test_each_damage_is_named(pair: list[Path]) -> None:
    source, result = pair
    target = result.with_name(f"damaged{result.suffix}")
    for words, check, text, wanted in DAMAGES:
        ffmpeg("-i", result, *words, target)
        status, failed = verdict(source, target)
        assert (status, set(failed)) == (1, wanted), text
        assert text in failed[check]


def test_shifted_sound_is_named(pair: list[Path]) -> None:
    source, result = pair
    target = result.with_name(f"shifted{result.suffix}")
    for shift, direction in (("0.08", "late"), ("-0.08", "early")):
        words = ("-itsoffset", shift, "-i", result, "-map", "0:v", "-map", "1:a", "-c", "copy")
        ffmpeg("-i", result, *words, target)
        status, failed = verdict(source, target)
        assert (status, set(failed)) == (1, {"sound-timing"})
        assert any(f"{ms} ms {direction}" in failed["sound-timing"] for ms in (79, 80))
