"""Ten minutes as a receiver records them, with what goes wrong: all is shown, and each fault named.

The film has MPEG-2 at 10 frames/s, two sound tracks and DVB subtitles. Its clock reaches its end
after two minutes; after four the picture becomes narrower; after eight another recording follows,
whose clock begins at 10 s. A burst of packets and single ones are lost.
"""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import av
import pytest

from tests.helpers.program import NEEDS_FFMPEG, ffmpeg, ffprobe, frame_times, run

pytestmark = [pytest.mark.slow, NEEDS_FFMPEG]

RATE = 10
PARTS = (("96x64", 240), ("72x64", 240), ("96x64", 120))  # size, s
SUBTITLE_EVERY_S = 20
PACKET = 188
STREAMS = (0x100, 0x101, 0x102)  # ids of picture and sound
CLOCK_END_S = (1 << 33) / 90_000
NO_PAGE = bytes.fromhex("0f10000100020500 0f8000010000")  # empties the screen, ends the set


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("broadcast")
    starts = (CLOCK_END_S - 120, CLOCK_END_S + 120, 10)
    parts = [
        _part(folder / f"{number}.ts", size, seconds, start)
        for number, ((size, seconds), start) in enumerate(zip(PARTS, starts, strict=True))
    ]
    return _with_losses(b"".join(part.read_bytes() for part in parts), folder / "film.ts")


def _part(path: Path, size: str, seconds: int, start: float) -> Path:
    subtitles = _subtitles(path.with_suffix(".mkv"), seconds)
    ffmpeg(
        *("-f", "lavfi", "-i", f"testsrc2=size={size}:rate={RATE}:duration={seconds}"),
        *("-f", "lavfi", "-i", f"sine=440:sample_rate=48000:duration={seconds}"),
        *("-f", "lavfi", "-i", f"sine=880:sample_rate=48000:duration={seconds}"),
        *("-i", subtitles, "-map", "0", "-map", "1", "-map", "2", "-map", "3"),
        *("-c:v", "mpeg2video", "-g", "12", "-bf", "2", "-b:v", "150k", "-aspect", "16:9"),
        *("-c:a:0", "mp2", "-c:a:1", "ac3", "-b:a", "64k", "-c:s", "copy"),
        *("-muxdelay", "0", "-muxpreload", "0", "-output_ts_offset", str(start), path),
    )
    return path


def _subtitles(path: Path, seconds: int) -> Path:
    """DVB subtitles, which FFmpeg's program makes of pictures only."""
    with av.open(str(path), "w", format="matroska") as file:
        stream = file.add_mux_stream("dvb_subtitle")
        file.start_encoding()
        for second in range(5, seconds, SUBTITLE_EVERY_S):
            packet = av.Packet(NO_PAGE)
            packet.stream, packet.time_base = stream, Fraction(1)
            packet.pts = packet.dts = second
            packet.duration = 3
            file.mux(packet)
    return path


def _with_losses(data: bytes, path: Path) -> Path:
    """Without forty packets in a row, and without single ones of picture and sound."""
    packets = [data[at : at + PACKET] for at in range(0, len(data), PACKET)]
    burst = len(packets) // 5
    lost = set(range(burst, burst + 40))
    for place, stream in enumerate(STREAMS * 2, start=3):
        first = len(packets) * place // 10
        lost.add(next(n for n in range(first, len(packets)) if _stream_of(packets[n]) == stream))
    path.write_bytes(b"".join(one for n, one in enumerate(packets) if n not in lost))
    return path


def _stream_of(packet: bytes) -> int:
    return (packet[1] & 31) << 8 | packet[2]


@pytest.mark.parametrize("container", ["mkv", "mp4"])
def test_a_recording_comes_through_and_each_fault_is_named(
    recording: Path, tmp_path: Path, container: str
) -> None:
    result = tmp_path / f"result.{container}"
    ended = run("upscale", recording, "-o", result, "--model", "none", "--height", "64")
    assert ended.status == 0, ended.err
    said = ended.out + ended.err
    lost = re.search(r"lost packets at \d+ places: (\d+) in the video, (\d+) in sound", said)
    assert lost is not None, said
    assert all(int(count) >= 3 for count in lost.groups())
    damaged = re.findall(r"\d+ damaged frames? (?:could not be decoded|may look wrong)", said)
    assert len(damaged) == 2
    assert "The frame size changes to 72x64" in said
    assert "The time stamps of the recording start again from 0" in said
    assert "The time stamps of the file jump back" in said
    assert "verified: all 14 checks passed" in said
    _is_whole(result, container)


def _is_whole(result: Path, container: str) -> None:
    """By FFmpeg's word: ten minutes of picture, sound with it, no time twice."""
    times = frame_times(result)
    planned = sum(seconds for _, seconds in PARTS)
    assert len(times) >= planned * RATE - 10
    assert all(before < after for before, after in pairwise(times))
    assert float(times[-1] - times[0]) == pytest.approx(planned, abs=1)
    for stream in ("a:0", "a:1"):
        found = ffprobe(result, "-select_streams", stream, "-show_entries", "packet=pts_time")
        sound = [float(packet["pts_time"]) for packet in found["packets"]]
        assert all(before < after for before, after in pairwise(sound))
        assert sound[0] == pytest.approx(float(times[0]), abs=0.1)
        assert sound[-1] == pytest.approx(float(times[-1]), abs=0.3)
    if container == "mkv":  # MP4 takes no DVB subtitles, which the plan says
        found = ffprobe(result, "-select_streams", "s:0", "-show_entries", "packet=pts_time")
        assert len(found["packets"]) == planned // SUBTITLE_EVERY_S
