"""Side data of decoded frames: every kind that FFmpeg has, also those that PyAV does not know."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import av
from av.filter import Graph

_READ_TWICE = ("png", "apng")
_MOST_UNKNOWN = 8  # kinds in one frame


def side_data_of(frame: Any, codec: str) -> dict[str, bytes]:
    """The first side data of each kind: "stereo3d", "a53-cc", "side-data-31", ...

    Names are FFmpeg's constants in lower case; a kind that PyAV has no name for has its number.

    Args:
        frame: av.VideoFrame.
        codec: FFmpeg's name.
    """
    # WORKAROUND for PyAV 18.1: it frees the name of a PNG's colour profile twice.
    if codec in _READ_TWICE:
        return {}
    unknown: dict[str, bytes] = {}
    for _ in range(_MOST_UNKNOWN):
        try:
            found: dict[str, bytes] = {}
            for data in frame.side_data:
                found.setdefault(data.type.name.lower().replace("_", "-"), bytes(data))
            return found | unknown
        except ValueError as err:
            # WORKAROUND for PyAV 18.1: of a frame with a kind that it does not know it shows none.
            number = str(err).partition(" ")[0]
            if not number.isdecimal():
                break
            unknown[f"side-data-{number}"] = b""
            frame = _without(frame, number)
    return unknown


def _without(frame: Any, number: str) -> Any:
    """A reference to a frame without the side data of a kind, by its number in FFmpeg."""
    graph = Graph()
    source = graph.add_buffer(
        width=frame.width,
        height=frame.height,
        format=frame.format,
        time_base=frame.time_base or Fraction(1),
    )
    chosen = graph.add("sidedata", f"mode=delete:type={number}")
    sink = graph.add("buffersink")
    source.link_to(chosen)
    chosen.link_to(sink)
    graph.configure()
    try:
        graph.push(frame)
        return graph.pull()
    except av.error.FFmpegError:
        return frame
