"""Two sound tracks, a subtitle and chapters come through byte for byte; odd times survive."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest

from tests.helpers.program import (
    NEEDS_FFMPEG,
    ffmpeg,
    ffprobe,
    film_stream,
    frame_times,
    packet_hashes,
    run,
    upscale,
)

pytestmark = [pytest.mark.slow, NEEDS_FFMPEG]

_CHAPTERS = """;FFMETADATA1
title=Two voices
artist=Unknown
[CHAPTER]
TIMEBASE=1/1000
START=0
END=1200
title=Dawn
[CHAPTER]
TIMEBASE=1/1000
START=1200
END=3000
title=Noon
"""
_TEXT = "1\n00:00:00,200 --> 00:00:01,000\nHello\n\n2\n00:00:01,500 --> 00:00:02,400\nAgain\n"


def build(path: Path) -> Path:
    """Three seconds with two sound tracks, a subtitle, two chapters, a title."""
    folder = path.parent
    (folder / "chapters.txt").write_text(_CHAPTERS)
    (folder / "text.srt").write_text(_TEXT)
    second = ["-c:a:1", "flac"] if path.suffix == ".mkv" else ["-c:a:1", "ac3"]
    ffmpeg(
        *("-f", "lavfi", "-i", "testsrc2=size=192x108:rate=24000/1001:duration=3"),
        *("-f", "lavfi", "-i", "sine=440:sample_rate=48000:duration=3"),
        *("-f", "lavfi", "-i", "anoisesrc=sample_rate=44100:duration=3:seed=7:amplitude=0.2"),
        *("-i", folder / "text.srt", "-i", folder / "chapters.txt"),
        *("-map", "0", "-map", "1", "-map", "2", "-map", "3", "-map_metadata", "4"),
        *("-map_chapters", "4", "-c:v", "libx264", "-preset", "fast", "-c:a:0", "aac", *second),
        *("-c:s", "srt" if path.suffix == ".mkv" else "mov_text"),
        *("-metadata:s:a:0", "language=eng", "-metadata:s:a:1", "language=fra"),
        *("-metadata:s:s:0", "language=deu", path),
    )
    return path


@pytest.mark.parametrize("suffix", [".mkv", ".mp4", ".mov"])
def test_other_streams_are_byte_identical(suffix: str, tmp_path: Path) -> None:
    source = build(tmp_path / f"source{suffix}")
    result = tmp_path / f"result{suffix}"
    upscale(source, result)
    for streams in ("a:0", "a:1", "s:0"):
        before = packet_hashes(source, streams)
        assert before
        assert packet_hashes(result, streams) == before
    old, new = (
        ffprobe(p, "-show_chapters", "-show_format", "-show_streams") for p in (source, result)
    )
    assert _chapters(new) == _chapters(old)
    assert new["format"]["tags"]["title"] == "Two voices"
    assert _languages(new) == _languages(old)
    assert _languages(new)[:2] == ["eng", "fra"]
    assert run("verify", source, result).status == 0
    _same_offset(source, result)


def _chapters(found: dict) -> list[tuple[str, str]]:
    return [(c["tags"]["title"], c["start_time"]) for c in found["chapters"]]


def _languages(found: dict) -> list[str]:
    others = [s for s in found["streams"] if s["codec_type"] in ("audio", "subtitle")]
    return [s.get("tags", {}).get("language", "und") for s in others]


def _same_offset(source: Path, result: Path) -> None:
    """Sound against picture: the first packets lie as far apart as in the source."""

    def offset(path: Path, streams: str) -> float:
        found = ffprobe(path, "-select_streams", streams, "-show_entries", "packet=pts_time")
        first = min(float(packet["pts_time"]) for packet in found["packets"])
        return first - float(frame_times(path)[0])

    for streams in ("a:0", "a:1", "s:0"):
        assert offset(result, streams) == pytest.approx(offset(source, streams), abs=0.0011)


def test_mkv_of_mp4_keeps_sound_and_says_what_it_cannot_take(tmp_path: Path) -> None:
    source = build(tmp_path / "source.mp4")
    result = tmp_path / "result.mkv"
    ended = run("upscale", source, "-o", result)
    assert ended.status == 0, ended.err
    for streams in ("a:0", "a:1"):
        assert packet_hashes(result, streams) == packet_hashes(source, streams)
    subtitles = ffprobe(result, "-select_streams", "s", "-show_streams")["streams"]
    assert subtitles or "left out" in ended.err + ended.out


@pytest.mark.parametrize("suffix", [".mp4", ".mov", ".mkv"])
def test_variable_frame_rate_keeps_every_time(suffix: str, tmp_path: Path) -> None:
    source, result = tmp_path / f"source{suffix}", tmp_path / f"result{suffix}"
    ffmpeg(
        *("-f", "lavfi", "-i", "testsrc2=size=160x90:rate=25:duration=4"),
        *("-vf", r"settb=1/90000,setpts='3600*N+700*mod(N\,3)+9000*gt(N\,40)'"),
        *("-fps_mode", "passthrough", "-enc_time_base", "1:90000", "-c:v", "libx264"),
        *("-video_track_timescale", "90000", source),
    )
    upscale(source, result)
    before, after = frame_times(source), frame_times(result)
    assert len({b - a for a, b in pairwise(before)}) > 2
    assert len(after) == len(before) == int(film_stream(source)["nb_read_frames"])
    worst = max(abs((b - after[0]) - (a - before[0])) for a, b in zip(before, after, strict=True))
    assert worst <= (Fraction(1, 2000) if suffix == ".mkv" else 0)
