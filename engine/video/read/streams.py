"""The streams of a file: which one is the film, and what the others are."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from av.stream import Disposition

from engine.core.errors import InputError, UnsupportedMedia
from engine.protocol.media import ChapterInfo, StreamInfo, StreamKind
from engine.video.read.opening import check_size

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream

_COVER = Disposition.attached_pic | Disposition.timed_thumbnails


def film_stream(path: Path, container: InputContainer) -> VideoStream:
    """The stream that players show: no cover; the default one, then the largest, then the first.

    Raises:
        UnsupportedMedia: There is none, its codec is unknown, or it is too large.
    """
    films = [s for s in container.streams.video if not s.disposition & _COVER]
    known = [s for s in films if s.codec_context is not None]
    if not known:
        raise _without_picture(path, container, has_unknown=bool(films))

    def rank(stream: VideoStream) -> tuple[bool, int, int]:
        context = stream.codec_context
        is_default = bool(stream.disposition & Disposition.default)
        return is_default, context.width * context.height, -stream.index

    best = max(known, key=rank)
    if best.codec_context.width or best.codec_context.height:
        check_size(path, best.codec_context.width, best.codec_context.height)
    return best


def _without_picture(path: Path, container: InputContainer, *, has_unknown: bool) -> InputError:
    if has_unknown or any(s.type == "unknown" for s in container.streams):
        return UnsupportedMedia(
            f"The codec of the picture in {path.name} is unknown.",
            hint="Convert it to a common format such as H.264 in MP4 first.",
            path=path,
        )
    if container.streams.audio:
        return UnsupportedMedia(
            f"{path.name} has sound but no moving picture.", hint="Choose a video.", path=path
        )
    return UnsupportedMedia(f"{path.name} has no picture.", hint="Choose a video.", path=path)


def clock_start(container: InputContainer) -> Fraction:
    """The earliest time stamp of picture and sound, s: where players show 0."""
    times = [
        stream.start_time * stream.time_base
        for stream in container.streams
        if stream.start_time is not None
        and stream.time_base
        and stream.type in ("video", "audio")
        and not stream.disposition & _COVER
    ]
    return Fraction(min(times, default=0))


def chapters_of(container: InputContainer) -> Iterator[ChapterInfo]:
    """Chapters, on the clock of the time stamps."""
    for chapter in container.chapters():
        base = chapter["time_base"] or Fraction(1, 1000)
        yield ChapterInfo(
            start=chapter["start"] * base,
            end=chapter["end"] * base,
            title=chapter["metadata"].get("title", ""),
        )


def other_streams(container: InputContainer, film: int) -> Iterator[StreamInfo]:
    """Every stream but the film, in the order of the file."""
    for stream in container.streams:
        if stream.index != film:
            yield _stream_info(stream)


def _stream_info(stream: Any) -> StreamInfo:
    context = stream.codec_context
    kinds: dict[str, StreamKind] = {
        "audio": "audio",
        "subtitle": "subtitle",
        "attachment": "attachment",
        "video": "cover" if stream.disposition & _COVER else "data",
    }
    is_sound = stream.type == "audio" and context is not None
    name = getattr(stream, "name", None)  # of an attachment it is that of the file
    codec = "" if stream.type == "attachment" else name
    if context is not None:
        codec = context.codec.canonical_name
    elif "timecode" in stream.metadata:
        codec = "timecode"
    return StreamInfo(
        index=stream.index,
        kind=kinds.get(stream.type, "data"),
        codec=codec or "",
        language=stream.language or "",
        title=stream.metadata.get("title", ""),
        is_default=bool(stream.disposition & Disposition.default),
        is_forced=bool(stream.disposition & Disposition.forced),
        channels=context.layout.nb_channels if is_sound else 0,
        sample_rate=context.sample_rate if is_sound else 0,
        file_name=stream.metadata.get("filename", ""),
        mime_type=stream.metadata.get("mimetype", ""),
        bit_rate=int(context.bit_rate or 0) if is_sound else 0,
    )
