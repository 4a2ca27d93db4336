"""Sources that state something beside their frames: 3D, 360 degrees, captions, formats, time codes.

FFmpeg's own program cannot write all of it: what it does not know is put into its files here, as
the standards say, and ffprobe judges both the source and the result.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.video.write.track_header import TrackFacts, make_room, write_facts
from tools.reports.fidelity_sources import PICTURE, Source, ffmpeg

_X264 = ("-c:v", "libx264", "-preset", "ultrafast", "-bf", "0")
_OWNER = b"\xb5\x00\x31"  # ITU-T T.35: United States, ATSC
_CAPTIONS = _OWNER + b"GA94\x03\x41\xff\xfc\x94\x2c\xff"
_ACTIVE_FORMAT = _OWNER + b"DTG1\x41\xf9"
# ffprobe's names of what describes the coding, or has a property of its own; of MPEG-2 all videos
# have a window for pan and scan, which is the whole picture.
_NO_STATEMENT = (
    *("User Data Unregistered", "Display Matrix", "displaymatrix", "CPB", "Mastering"),
    *("Content light", "QP table", "Encoding info", "Motion", "PanScan", "Skip", "GOP timecode"),
)


def stating_sources() -> list[Source]:
    """All of them, in the order of the table."""
    stereo = [
        _film(f"3D, {words}, in MKV", "a.mkv", "-metadata:s:v:0", f"stereo_mode={mode}")
        for words, mode in (
            ("side by side", "left_right"),
            ("right view first", "right_left"),
            ("top and bottom", "top_bottom"),
            ("chequerboard", "checkerboard_lr"),
        )
    ]
    packed = ("-x264-params", "frame-packing=3")
    stereo += [_film(f"3D, frame packing in {end}", f"a.{end}", *packed) for end in ("ts", "mp4")]
    spherical = [
        Source(about=f"360 degrees in {end}", name=f"a.{end}", make=_with_projection)
        for end in ("mp4", "mov", "mkv")
    ]
    messages = [
        Source(about=f"{words} in {end}", name=f"a.{end}", make=_with_message(message))
        for words, message in (("captions", _CAPTIONS), ("active format", _ACTIVE_FORMAT))
        for end in ("ts", "mp4", "mkv")
    ]
    code = ("-c:v", "mpeg2video", "-gop_timecode", "10:00:00:00")
    codes = [
        Source(about="time code of MPEG-2", name="a.mpg", make=lambda path: _write(path, *code)),
        _film("drop-frame time code at 25 fps", "a.mkv", "-metadata", "timecode=01:00:00;00"),
    ]
    return [*stereo, *spherical, *messages, *codes]


def _film(about: str, name: str, *words: str) -> Source:
    return Source(about=about, name=name, make=lambda path: _write(path, *_X264, *words))


def _write(path: Path, *words: str | Path) -> None:
    ffmpeg(*PICTURE, "-pix_fmt", "yuv420p", *words, path)


def _with_projection(path: Path) -> None:
    facts = TrackFacts(spherical="0,1966080,0,0,0,0,0,0,0")  # turned by 30 degrees
    named: dict[str, str] = {}
    make_room(named, path.suffix[1:], facts)
    names = [word for name in named.items() for word in ("-metadata:s:v:0", "=".join(name))]
    _write(path, *_X264, *names)
    write_facts(path, path.suffix[1:], facts)


def _with_message(payload: bytes) -> Callable[[Path], None]:
    """Writes a video with a message of user data in each of its frames, whose slices are single."""
    unit = b"\0\0\1\6\4" + bytes([len(payload)]) + payload + b"\x80"

    def write(path: Path) -> None:
        raw = path.with_suffix(".h264")
        _write(raw, *_X264, "-x264-params", "slices=1:sliced-threads=0:annexb=1", "-f", "h264")
        units = raw.read_bytes().split(b"\0\0\1")
        kinds = [one[0] & 31 if one else 0 for one in units]
        slices = [(unit if kind in (1, 5) else b"") for kind in kinds[1:]]
        pairs = zip(slices, units[1:], strict=True)
        raw.write_bytes(units[0] + b"".join(new + b"\0\0\1" + one for new, one in pairs))
        ffmpeg("-fflags", "+genpts", "-r", "25", "-i", raw, "-c", "copy", path)

    return write


def statements(path: Path) -> dict[str, str]:
    """Side data of the video and of its frames by ffprobe's names, with what tells them apart."""
    entries = "stream=side_data_list:frame=side_data_list"
    words = ("-v", "quiet", "-of", "json", "-select_streams", "v:0", "-show_entries", entries)
    done = subprocess.run(
        ["ffprobe", *words, "-show_streams", "-show_frames", str(path)],
        capture_output=True,
        check=True,
    )
    found = json.loads(done.stdout)
    sides = [
        side
        for one in (*found.get("streams", []), *found.get("frames", []))
        for side in one.get("side_data_list", [])
    ]
    return {
        name: _told_apart(side)
        for side in sides
        if (name := side.get("side_data_type", "?"))
        and not any(word in name for word in _NO_STATEMENT)
    }


def _told_apart(side: dict[str, Any]) -> str:
    keys = ("type", "inverted", "projection", "yaw", "pitch", "roll")
    return ",".join(str(side[key]) for key in keys if key in side)
