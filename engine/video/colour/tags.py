"""Numbers of ITU-T H.273, as PyAV gives them, to FFmpeg's names and back."""

from __future__ import annotations

from typing import Any

from engine.protocol.media import ColourTags, Hdr

MATRIX = {
    0: "rgb",
    1: "bt709",
    4: "fcc",
    5: "bt470bg",
    6: "smpte170m",
    7: "smpte240m",
    8: "ycgco",
    9: "bt2020nc",
    10: "bt2020c",
    11: "smpte2085",
    12: "chroma-derived-nc",
    13: "chroma-derived-c",
    14: "ictcp",
    15: "ipt-c2",
    16: "ycgco-re",
    17: "ycgco-ro",
}
RANGE = {1: "tv", 2: "pc"}
PRIMARIES = {
    1: "bt709",
    4: "bt470m",
    5: "bt470bg",
    6: "smpte170m",
    7: "smpte240m",
    8: "film",
    9: "bt2020",
    10: "smpte428",
    11: "smpte431",
    12: "smpte432",
    22: "jedec-p22",
}
TRANSFER = {
    1: "bt709",
    4: "bt470m",
    5: "bt470bg",
    6: "smpte170m",
    7: "smpte240m",
    8: "linear",
    9: "log100",
    10: "log316",
    11: "iec61966-2-4",
    12: "bt1361e",
    13: "iec61966-2-1",
    14: "bt2020-10",
    15: "bt2020-12",
    16: "smpte2084",
    17: "smpte428",
    18: "arib-std-b67",
}


def tags_of(context: Any, frame: Any) -> ColourTags:
    """What a decoder's context and its first frame say; the frame knows better.

    Args:
        context: av.VideoCodecContext or None.
        frame: av.VideoFrame or None.
    """
    return ColourTags(
        matrix=_first(MATRIX, "colorspace", frame, context),
        range=_first(RANGE, "color_range", frame, context),
        primaries=_first(PRIMARIES, "color_primaries", frame, context),
        transfer=_first(TRANSFER, "color_trc", frame, context),
    )


def _first(names: dict[int, str], attribute: str, *speakers: Any) -> str:
    for speaker in speakers:
        if speaker is None:
            continue
        name = names.get(int(getattr(speaker, attribute)), "")
        if name:
            return name
    return ""


def hdr_of(tags: ColourTags) -> Hdr:
    """Which kind of high dynamic range a transfer means."""
    if tags.transfer == "smpte2084":
        return "pq"
    return "hlg" if tags.transfer == "arib-std-b67" else ""
