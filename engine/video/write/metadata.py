"""What a file says about itself: titles, dates, chapters, time code, and the muxer's options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from math import lcm
from typing import Any

from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan

# Said by the container itself, or true only of the source's own streams.
_OF_THE_CONTAINER = frozenset(
    {"major_brand", "minor_version", "compatible_brands", "encoder", "duration"}
)
_OF_THE_STREAM = frozenset({"encoder", "duration", "vendor_id", "filename", "mimetype", "rotate"})
_STATISTICS = re.compile(
    r"^(bps|number_of_frames|number_of_bytes|duration|_statistics_\w+)(-\w+)?$"
)
# What MP4 and MOV keep in their common places; anything else needs the "mdta" table of keys.
_PLAIN = frozenset({"title", "artist", "album", "date", "comment", "genre", "copyright"}) | {
    "keywords",
    "creation_time",
    "timecode",
}
_PLAIN_MP4 = _PLAIN | {"album_artist", "composer", "grouping", "lyrics", "description", "synopsis"}
_PLAIN_MOV = _PLAIN | {"author", "make", "model", "location"}
_TIME_CODE = re.compile(r"^\d\d:\d\d:\d\d([:;.,])\d\d$")
_LARGEST_TIMESCALE = 2**31 - 1
# Packets come sorted; without this a stream that is mostly silent holds 10 s of picture back.
_INTERLEAVED = {"max_interleave_delta": "500000"}  # us
_PREROLL = 1  # s; MKV could hold up to 32 s before 0


def file_metadata(media: MediaInfo) -> dict[str, str]:
    """Global entries of the source that stay true."""
    return {k: v for k, v in media.metadata.items() if k.lower() not in _OF_THE_CONTAINER}


def stream_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Entries of a stream that stay true: language, title, handler, but no statistics."""
    return {
        name: value
        for name, value in metadata.items()
        if name.lower() not in _OF_THE_STREAM and not _STATISTICS.match(name.lower())
    }


def time_code(source: Any, rate: Fraction) -> str:
    """The time code of the first frame, as the source says it anywhere, or ""."""
    for place in (source, *source.streams):
        value: str = place.metadata.get("timecode", "")
        match = _TIME_CODE.match(value)
        if match and (match[1] != ";" or round(rate) % 30 == 0):
            return value
    return ""


def chapters_of(source: Any, shift: Fraction, end: Fraction | None) -> list[dict[str, Any]]:
    """Chapters of the source as the result has them.

    Args:
        source: The opened file.
        shift: Seconds taken from every time.
        end: Of the result in seconds, where its end was trimmed. Chapters outside are dropped and
            those across an edge cut; MKV refuses one that begins before 0.
    """
    chapters = []
    for chapter in source.chapters():
        base = chapter["time_base"] or Fraction(1, 1000)
        moved = round(shift / base)
        first, last = chapter["start"] - moved, chapter["end"] - moved
        kept = max(first, 0), last if end is None else min(last, round(end / base))
        if kept != (first, last) and kept[1] <= kept[0]:
            continue
        first, last = kept
        chapters.append({**chapter, "start": first, "end": last, "time_base": base})
    return chapters


def muxer_options(media: MediaInfo, plan: Plan) -> dict[str, str]:
    """Options of the muxer that keep times and tags exact."""
    if plan.container == "mkv":
        options = {"default_mode": "passthrough", **_INTERLEAVED}
        if media.start >= -_PREROLL:  # sound of MP4 starts a little before 0: keep it there
            options["avoid_negative_ts"] = "disabled"
        return options
    flags = "+faststart"
    plain = _PLAIN_MOV if plan.container == "mov" else _PLAIN_MP4
    if any(name.lower() not in plain for name in file_metadata(media)):
        flags += "+use_metadata_tags"
    scale = str(_movie_timescale(media, plan))
    return {"movflags": flags, "movie_timescale": scale, **_INTERLEAVED}


def _movie_timescale(media: MediaInfo, plan: Plan) -> int:
    """Units in which late starts are written: those of all streams at once where they fit."""
    scale = plan.picture.time_base.denominator
    for stream in media.audio_streams:
        both = lcm(scale, stream.sample_rate or 1)
        scale = both if both <= _LARGEST_TIMESCALE else scale
    return scale if 1000 <= scale <= _LARGEST_TIMESCALE else lcm(1000, scale) % 2**31 or 1000
