"""Facts about the streams of a file: video, other streams, frame count, rotation, quantiser."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import av
import numpy as np
from av import CodecContext
from av.sidedata.encparams import VideoEncParams
from av.stream import Discard, Disposition
from av.video.codeccontext import VideoCodecContext

from engine.core.errors import InputError, UnsupportedMedia, memory_ran_out
from engine.core.geometry import Margins, Size
from engine.core.units import parse_fraction
from engine.protocol.media import ChapterInfo, HdrMetadata, StreamInfo, StreamKind, VideoInfo
from engine.video.planes import layout_of, planes_of
from engine.video.read.media_file import check_size, open_input, packets_of, translated
from engine.video.read.statements import side_data_of

if TYPE_CHECKING:
    from av import VideoFrame
    from av.container import InputContainer
    from av.video.stream import VideoStream

# FFmpeg's own decoders leave transparency out; those of libvpx give it with these pixels only.
_WITH_ALPHA = {("vp8", "yuv420p"): "libvpx", ("vp9", "yuv420p"): "libvpx-vp9"}
# Decoders that give alpha for every file: of animations, and of JPEGs with four colours.
_ALWAYS_WITH_ALPHA = frozenset({"gif", "apng", "mjpeg"})
_MOST_PIXELS = 100_000_000  # of an animation that are looked at for alpha

# The widest usual ones; floats of WavPack are rare.
_USUAL_SAMPLES = {"truehd": "s32", "mlp": "s32", "dts": "fltp", "wavpack": "s32p"}
_ROUNDING = 0.005  # of a shape that is stated as a width and a height, px
_COVER = Disposition.attached_pic | Disposition.timed_thumbnails


def film_stream(path: Path, container: InputContainer, chosen: int = -1) -> VideoStream:
    """The stream that players show: no cover; the default one, then the largest, then the first.

    A stream of one frame comes after all of its kind: FFmpeg shows the first frame of an animated
    AVIF also as a stream of its own.

    Args:
        path: Path of the file.
        container: It, opened.
        chosen: Index of the stream that is taken instead; -1 for none.

    Raises:
        UnsupportedMedia: There is none, its codec is unknown, or it is too large.
    """
    films = [s for s in container.streams.video if not s.disposition & _COVER]
    known = [s for s in films if s.codec_context is not None]
    if not known:
        raise _without_picture(path, container, has_unknown=bool(films))

    def rank(stream: VideoStream) -> tuple[bool, bool, int, int]:
        context = stream.codec_context
        is_default = bool(stream.disposition & Disposition.default)
        return is_default, stream.frames != 1, context.width * context.height, -stream.index

    if chosen >= 0:
        known = [stream for stream in known if stream.index == chosen]
        if not known:
            indices = ", ".join(str(stream.index) for stream in films)
            about: dict[str, Any] = {"index": chosen, "indices": indices}
            raise UnsupportedMedia("no-such-video-stream", name=path.name, path=path, **about)
    best = max(known, key=rank)
    if best.codec_context.width or best.codec_context.height:
        check_size(path, best.codec_context.width, best.codec_context.height)
    return best


def decoder_of(stream: VideoStream) -> VideoCodecContext:
    """The decoder for the packets of a stream, from a key frame on; not opened yet."""
    context = stream.codec_context
    name = _WITH_ALPHA.get((context.codec.canonical_name, context.pix_fmt or ""))
    if name is None or not _states_alpha(stream):
        return context
    decoder = CodecContext.create(name, "r")
    assert isinstance(decoder, VideoCodecContext)
    return decoder


def has_alpha(frames: Iterable[VideoFrame], codec: str) -> bool:
    """Whether there is alpha to keep.

    A channel of the file counts whatever it holds. Where only the decoder or a palette gives one,
    a frame must show it.

    Args:
        frames: av.VideoFrame, decoded.
        codec: FFmpeg's name.
    """
    for frame in frames:
        layout = layout_of(frame.format.name)
        if not layout.has_alpha:
            return False
        if frame.format.name != "pal8" and codec not in _ALWAYS_WITH_ALPHA:
            return True
        if (planes_of(frame, alpha=True)[-1] < (1 << layout.bit_depth) - 1).any():
            return True
    return False


def shows_alpha(path: Path, index: int) -> bool:
    """Whether a frame of an animation is transparent, of those in its first 100 million pixels.

    Those take about a second; a count, unlike a time, gives the same answer everywhere.

    Raises:
        InputError: The file cannot be read.
    """
    left = _MOST_PIXELS
    with open_input(path) as container, translated(path):
        stream: Any = container.streams[index]
        codec = stream.codec_context.codec.canonical_name
        for packet in packets_of(container, stream):
            frames = stream.decode(packet)
            if has_alpha(frames, codec):
                return True
            left -= sum(frame.width * frame.height for frame in frames)
            if left < 0:
                break
    return False


def has_alpha_beside(stream: VideoStream, packet: Any) -> bool:
    """Whether transparency is stored beside what the codec of a stream codes.

    In packets of Matroska or WebM, and in another track of an animated AVIF.
    """
    if _is_animated_avif(stream.container):
        others = (one for one in stream.container.streams.video if one.index != stream.index)
        return any(one.frames > 1 and one.codec_context.pix_fmt == "gray" for one in others)
    return _states_alpha(stream) and packet.has_sidedata("matroska_block_additional")


def _is_animated_avif(container: Any) -> bool:
    """Whether all images of a file belong to one animation: frames, alpha and the first frame."""
    return bool(container.metadata.get("major_brand") == "avis")


def _states_alpha(stream: VideoStream) -> bool:
    stated = {name.lower(): value for name, value in stream.metadata.items()}
    return stated.get("alpha_mode", "0") != "0"


def cropped(video: VideoInfo, margins: Margins, coded_aspect: Fraction) -> VideoInfo:
    """A video without what its container crops of each frame.

    Args:
        video: Properties of the decoded stream.
        margins: Result of `cropping_of`.
        coded_aspect: Width of a pixel over its height, as the coded stream states; 1 where it
            states nothing.
    """
    part = margins.inside(video.size)
    if margins == Margins() or part.is_empty:
        return video
    # A container states how wide the whole is shown, or only the part, and FFmpeg takes it for one
    # of both: for the other one where the pixels then have the shape of the coded stream.
    widening = Fraction(video.size.height * part.width, video.size.width * part.height)
    others = video.sample_aspect * widening, video.sample_aspect / widening
    is_other = any(abs(other / coded_aspect - 1) <= _ROUNDING for other in others)
    aspect = coded_aspect if is_other else video.sample_aspect
    return replace(video, size=part, cropped=margins, sample_aspect=aspect)


def _without_picture(path: Path, container: InputContainer, *, has_unknown: bool) -> InputError:
    if has_unknown or any(s.type == "unknown" for s in container.streams):
        return UnsupportedMedia("unknown-codec", name=path.name, path=path)
    if container.streams.audio:
        return UnsupportedMedia("only-sound", name=path.name, path=path)
    return UnsupportedMedia("no-picture", name=path.name, path=path)


def other_programmes(container: InputContainer, film: VideoStream) -> frozenset[int]:
    """Streams of a broadcast that belong to other programmes than the video; none elsewhere.

    FFmpeg answers which video goes with a stream: none in a radio programme. Sound and subtitles
    that several programmes share belong to the video too.
    """

    def companion(kind: str, stream: Any) -> int:
        streams: Any = container.streams  # PyAV types `kind` and `related` more narrowly
        best = streams.best(kind, related=stream)
        return -1 if best is None else best.index

    own = companion("video", film)
    return frozenset(
        stream.index
        for stream in container.streams
        if stream.type in ("video", "audio", "subtitle", "data")
        and companion("video", stream) != own
        and companion(stream.type, film) != stream.index
    )


def clock_start(container: InputContainer, foreign: Collection[int] = ()) -> Fraction:
    """The earliest time stamp of picture and sound, s: where players show 0.

    Args:
        container: The file.
        foreign: Streams of other programmes, whose clocks are their own.
    """
    times = [
        stream.start_time * stream.time_base
        for stream in container.streams
        if stream.start_time is not None
        and stream.time_base
        and stream.type in ("video", "audio")
        and not stream.disposition & _COVER
        and stream.index not in foreign
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


def other_streams(
    container: InputContainer, film: int, foreign: Collection[int] = ()
) -> Iterator[StreamInfo]:
    """Every stream but the video, in the order of the file.

    Args:
        container: The file.
        film: Index of the video.
        foreign: Streams of other programmes.
    """
    for stream in container.streams:
        is_of_film = _is_animated_avif(container) and stream.type == "video"
        if stream.index != film and not is_of_film:
            is_foreign = stream.index in foreign
            yield replace(_stream_info(stream), is_of_other_programme=is_foreign)


def title_of(metadata: Mapping[str, str]) -> str:
    """Title of a track: MP4 and MOV have it as its name."""
    return metadata.get("title", "") or metadata.get("name", "")


def marks_of(stream: Any) -> tuple[str, ...]:
    """Marks of a track: all of FFmpeg's dispositions but those of covers."""
    found = (one for one in Disposition if stream.disposition & one & ~_COVER)
    return tuple(str(one.name) for one in found)


def sample_format_of(context: Any) -> str:
    """FFmpeg's name of the format of decoded samples; "" where it is unknown.

    A decoder that states it only after its first packet has the usual one in a track that begins
    late: the header states rate and channels, and its first packet lies beyond the probed bytes.
    """
    if context.format:
        return str(context.format.name)
    return _USUAL_SAMPLES.get(context.codec.canonical_name, "") if context.sample_rate else ""


def sample_bits_of(codec: str, header: bytes) -> int:
    """Bits of each sample of a lossless track; 0 where the codec states none.

    Args:
        codec: FFmpeg's name.
        header: Its `extradata`.
    """
    if codec == "flac" and len(header) >= 14:  # STREAMINFO
        return 1 + ((header[12] & 1) << 4 | header[13] >> 4)
    if codec == "alac" and len(header) >= 18:  # ALACSpecificConfig, behind the head of its box
        return header[17]
    if codec == "tta" and len(header) >= 10:
        return int.from_bytes(header[8:10], "little")
    return 0


def _stream_info(stream: Any) -> StreamInfo:
    context = stream.codec_context
    kinds: dict[str, StreamKind] = {
        "audio": "audio",
        "subtitle": "subtitle",
        "attachment": "attachment",
        "video": "cover" if stream.disposition & _COVER else "video",
    }
    if stream.disposition & Disposition.timed_thumbnails:
        kinds["video"] = "thumbnails"
    is_sound = stream.type == "audio" and context is not None
    has_size = stream.type == "video" and context is not None and context.width > 0
    name = getattr(stream, "name", None)  # of an attachment the file name
    codec = "" if stream.type == "attachment" else name
    if context is not None:
        codec = context.codec.canonical_name
    elif "timecode" in stream.metadata:
        codec = "timecode"
    elif stream.type == "data" and stream.discard == Discard.all:
        codec = "text"  # FFmpeg has read it, as titles of chapters
    return StreamInfo(
        index=stream.index,
        kind=kinds.get(stream.type, "data"),
        codec=codec or "",
        language=stream.language or "",
        title=title_of(stream.metadata),
        is_default=bool(stream.disposition & Disposition.default),
        is_forced=bool(stream.disposition & Disposition.forced),
        marks=marks_of(stream),
        channels=context.layout.nb_channels if is_sound else 0,
        sample_rate=context.sample_rate if is_sound else 0,
        layout=context.layout.name if is_sound else "",
        sample_format=sample_format_of(context) if is_sound else "",
        sample_bits=sample_bits_of(codec or "", context.extradata or b"") if is_sound else 0,
        size=Size(context.width, context.height) if has_size else None,
        file_name=stream.metadata.get("filename", ""),
        mime_type=stream.metadata.get("mimetype", ""),
        bit_rate=int(context.bit_rate or 0) if is_sound else 0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketCount:
    """Packets that are shown, in the stream's time base."""

    frames: int
    bytes: int
    start_pts: int | None = None  # None without time stamps
    end_pts: int | None = None  # end of the last one, its duration included
    is_complete: bool = True  # False when time ran out


def count_by_index(stream: VideoStream) -> PacketCount | None:
    """Times from the index of MP4 and MOV, after edit lists; None where there is no full index."""
    if stream.frames <= 0:
        return None
    entries = stream.index_entries
    if len(entries) < stream.frames:
        return None
    shown = [entry.size for entry in entries if not entry.is_discard]
    return PacketCount(frames=len(shown), bytes=sum(shown))


def count_by_reading(
    container: InputContainer, stream: VideoStream, *, seconds: float
) -> PacketCount:
    """Reads through a freshly opened file; stops after `seconds`. Memory: one packet."""
    for other in container.streams:
        if other.index != stream.index:
            other.discard = Discard.all
    frames = size = 0
    first: int | None = None
    end: int | None = None
    deadline = time.monotonic() + seconds
    is_complete = True
    try:
        for packet in packets_of(container, stream):
            if packet.size == 0 or packet.is_discard:
                continue
            frames += 1
            size += packet.size
            if packet.pts is not None:
                first = packet.pts if first is None else min(first, packet.pts)
                last = packet.pts + (packet.duration or 0)
                end = last if end is None else max(end, last)
            if frames % 64 == 0 and time.monotonic() > deadline:
                is_complete = False
                break
    except av.error.FFmpegError as err:
        if memory_ran_out(err):
            raise
        is_complete = False  # damaged: the reader of the frames reports it
    return PacketCount(
        frames=frames, bytes=size, start_pts=first, end_pts=end, is_complete=is_complete
    )


def rotation_of(frame: Any, codec: str, metadata: Mapping[str, str]) -> tuple[int, bool]:
    """Clockwise degrees (0, 90, 180, 270) from the stored to the seen picture, and its mirroring.

    Args:
        frame: First decoded av.VideoFrame; carries the display matrix as side data.
        codec: FFmpeg's name.
        metadata: Metadata of the stream; an old "rotate" counts where there is no matrix.
    """
    matrix = side_data_of(frame, codec).get("displaymatrix")
    if matrix is not None:
        return rotation_of_matrix(np.frombuffer(matrix, dtype=np.int32, count=9).tolist())
    if frame.rotation:
        return -frame.rotation % 360, False
    try:
        return round(parse_fraction(metadata.get("rotate", "0")) / 90) * 90 % 360, False
    except ValueError:
        return 0, False


def rotation_of_matrix(matrix: list[int]) -> tuple[int, bool]:
    """Orientation from the nine values of a display matrix, to the nearest right angle.

    A point (x, y), y down, is seen at (a x + c y, b x + d y) with a, b in the first row and c, d
    in the second. A mirror acts after the rotation, on the picture as seen.
    """
    a, b, c, d = matrix[0], matrix[1], matrix[3], matrix[4]
    is_mirrored = a * d - b * c < 0
    degrees = math.degrees(math.atan2(b, d if is_mirrored else a))
    return round(degrees / 90) * 90 % 360, is_mirrored


def hdr_metadata_of(frames: Iterable[Any], codec: str) -> HdrMetadata | None:
    """HDR metadata that frames state for the whole video; None where they state none.

    Args:
        frames: av.VideoFrame, decoded.
        codec: FFmpeg's name.
    """
    found = HdrMetadata()
    for frame in frames:
        data = side_data_of(frame, codec)
        display, light = (data.get(kind) for kind in _STATIC_HDR)
        if display is not None:
            found = _with_display(found, np.frombuffer(display, dtype=np.int32, count=22).tolist())
        if light is not None:
            levels = np.frombuffer(light, dtype=np.uint32, count=2).tolist()
            found = replace(found, light_level=tuple(levels) if any(levels) else ())
    return found if found != HdrMetadata() else None


_STATIC_HDR = ("mastering-display-metadata", "content-light-level")


def _with_display(found: HdrMetadata, values: list[int]) -> HdrMetadata:
    """Colour volume from the integers of AVMasteringDisplayMetadata: ten fractions, two flags."""
    if not all(values[1:20:2]):
        return found  # a denominator of 0
    fractions = tuple(Fraction(values[at], values[at + 1]) for at in range(0, 20, 2))
    has_primaries, has_luminance = values[20:22]
    return replace(
        found,
        primaries=fractions[:8] if has_primaries else (),
        luminance=fractions[8:] if has_luminance else (),
    )


def mean_quantiser(path: Path, *, index: int = -1, frames: int = 24) -> float | None:
    """Mean H.264 quantiser (0 to 51, 6 more halve the precision) of the first frames.

    It shows compression damage better than the bit rate, which depends on motion and detail too.

    Args:
        path: The source.
        index: Index of the video stream; -1 for the first one.
        frames: Number of frames to decode.

    Returns:
        The mean over all blocks; None for other codecs (their decoders export nothing, or values
        on another scale) and where the decoder exports nothing.

    Raises:
        InputError: The file cannot be read; see `media_file.translated`.
    """
    with open_input(path) as container:
        films = (s for s in container.streams.video if index in (-1, s.index))
        stream = next(films, None)
        if stream is None or stream.codec_context.name != "h264":
            return None
        stream.codec_context.options = {"export_side_data": "venc_params"}
        with translated(path):
            means = [
                _quantiser_of(side)
                for frame in islice(container.decode(stream), frames)
                for side in frame.side_data
                if isinstance(side, VideoEncParams)
            ]
    return float(np.mean(means)) if means else None


def _quantiser_of(side: Any) -> float:
    """Mean over all blocks of a frame, those of rows beyond its edge included.

    WORKAROUND for PyAV 18.1: `qp_map` refuses frames with such rows (interlaced, of odd height).
    """
    fields = np.frombuffer(side, dtype=np.int32, offset=side.blocks_offset)
    width = side.block_size // fields.itemsize  # the last field of a block is its difference
    return float(side.qp + fields[width - 1 :: width][: side.nb_blocks].mean())
