"""Probing: from a path to MediaInfo, also where frames are of another kind than the first ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import av
from av.video.stream import VideoStream

from engine.core.errors import memory_ran_out
from engine.core.file_access import advised
from engine.core.geometry import Margins, Size
from engine.core.units import ratio_text
from engine.protocol.media import Change, MediaInfo, Statement, VideoInfo
from engine.video.colour_tags import chroma_location, hdr_of, tags_of
from engine.video.planes import layout_of
from engine.video.read.chapter_order import chapter_order
from engine.video.read.clock import FrameTimes
from engine.video.read.image_probe import picture_data_of, probe_image, probe_sequence
from engine.video.read.images import SEQUENCE_RATE, find_sequence, picture_codec
from engine.video.read.media_file import (
    check_readable,
    check_size,
    is_truncated,
    open_input,
    packets_of,
    translated,
)
from engine.video.read.sound import with_decoders
from engine.video.read.statements import (
    FrameKind,
    cropping_of,
    stated_by,
    stream_statements,
    with_statements,
)
from engine.video.read.stream_info import (
    PacketCount,
    chapters_of,
    clock_start,
    count_by_index,
    count_by_reading,
    cropped,
    decoder_of,
    film_stream,
    has_alpha,
    has_alpha_beside,
    hdr_metadata_of,
    marks_of,
    mean_quantiser,
    other_programmes,
    other_streams,
    rotation_of,
    shows_alpha,
    title_of,
)

if TYPE_CHECKING:
    from av import VideoFrame
    from av.container import InputContainer
    from av.video.codeccontext import VideoCodecContext

_FIELD_ORDERS = {2: "tt", 3: "bb", 4: "tb", 5: "bt"}
_FIELD_CODECS = {"h264", "hevc", "mpeg2video", "vc1", "wmv3", "cavs"}
_STILL_CONTAINERS = {"gif", "apng", "webp", "ico", "fits"}  # and those of FFmpeg's pipes
COUNT_SECONDS = 2.0  # time limit for counting frames
_PROBED_FRAMES = 3
_MAX_PACKETS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Beginning:
    """The first frames and the first packet of a video."""

    frames: list[VideoFrame]
    packet: bytes
    has_alpha_beside: bool


def probe(path: Path, video_stream: int = -1) -> MediaInfo:
    """Facts about a video, a picture or a numbered sequence of pictures.

    Args:
        path: A file; or a name such as "shot_%04d.png" or a folder, for a sequence.
        video_stream: Index of the video track that is the video; -1 for the one that players show.
            Pictures have no choice.

    Raises:
        InputError: Missing, unreadable, not media, without a picture, damaged, or too large: one
            of its kinds with a code and a hint.

    Decodes a few frames, and reads through a file of up to some hundred megabytes when its
    container does not count the frames. Memory: a few frames.
    """
    sequence = find_sequence(path)
    if sequence is not None:
        found = probe_sequence(*sequence)
        return replace(found, video_stream=video_stream, is_folder=path.is_dir())
    codec = picture_codec(path)
    if codec:
        return replace(probe_image(path, codec), video_stream=video_stream)
    media = _probe_film(path, video_stream)
    if media.audio_streams:
        media = with_decoders(media)
    quantiser = advised(lambda: mean_quantiser(path, index=media.video.index), None)
    return replace(media, video=replace(media.video, quantiser=quantiser or 0.0))


def _probe_film(path: Path, chosen: int) -> MediaInfo:
    with open_input(path) as container:
        stream = film_stream(path, container, chosen)
        foreign = other_programmes(container, stream)
        with translated(path):
            first = _first_frames(path, container, stream)
        counted = count_by_index(stream) or advised(
            lambda: _count(path, stream.index), PacketCount(frames=0, bytes=0, is_complete=False)
        )
        coded_aspect = Fraction(stream.codec_context.sample_aspect_ratio or 1)
        margins = cropping_of(container, stream.index)
        video = cropped(_video_info(stream, first, counted), margins, coded_aspect)
        if video.duration is None and container.duration:
            video = replace(video, duration=Fraction(container.duration, av.time_base))
        name = container.format.name
        stated = stream_statements(container, stream.index)
        is_still = name in _STILL_CONTAINERS or name.endswith("_pipe")
        if is_still:
            data = picture_data_of(path)
            stated = (*stated, *data.statements(video.tags))
            video = replace(
                video,
                profile=data.colour_space,
                has_exif=data.says_anything,
                has_alpha=advised(lambda: shows_alpha(path, stream.index), True),
            )
        is_image = is_still and video.frame_count == 1
        if is_image:  # whatever time it is said to be shown
            video = replace(video, frame_rate=SEQUENCE_RATE, duration=1 / SEQUENCE_RATE)
        media = MediaInfo(
            path=path,
            kind="image" if is_image else "video",
            container=name,
            bytes=check_readable(path),
            video=_estimated(video),
            streams=tuple(other_streams(container, stream.index, foreign)),
            chapters=tuple(chapters_of(container)),
            chapter_order=(
                advised(lambda: chapter_order(path), None) if "matroska" in name else None
            ),
            metadata=dict(container.metadata),
            start=clock_start(container, foreign),
            video_stream=chosen,
            is_cut_short=is_truncated(path),
            statements=stated,
        )
        if is_image and media.streams:  # an icon in several sizes
            others = Statement(kind="images", value=str(len(media.streams)))
            media = replace(media, streams=(), statements=(*media.statements, others))
        for frame in first.frames:
            media = with_statements(media, stated_by(frame, video.codec))
        return media


def _first_frames(path: Path, container: InputContainer, stream: VideoStream) -> _Beginning:
    """The first frames that can be decoded, at least one.

    Raises:
        UnsupportedMedia: The picture has no pixels.
        InputError: Nothing can be decoded.
    """
    decoder = decoder_of(stream)
    decoder.thread_type = "SLICE"
    decoder.thread_count = 1
    frames: list[VideoFrame] = []
    first_packet, alpha_beside = b"", False
    failure: av.error.FFmpegError | None = None
    for number, packet in enumerate(packets_of(container, stream)):
        first_packet = first_packet or bytes(packet)
        alpha_beside = alpha_beside or has_alpha_beside(stream, packet)
        try:
            frames += decoder.decode(packet)
        except av.error.FFmpegError as err:
            if memory_ran_out(err):
                raise
            failure = err
        if len(frames) >= _PROBED_FRAMES or number >= _MAX_PACKETS:
            break
    if not frames:
        check_size(path, stream.codec_context.width, stream.codec_context.height)
        raise failure or av.error.InvalidDataError(-1, "no frame can be decoded")
    check_size(path, frames[0].width, frames[0].height)
    return _Beginning(frames=frames, packet=first_packet, has_alpha_beside=alpha_beside)


def _count(path: Path, index: int) -> PacketCount:
    with open_input(path) as container, translated(path):
        stream = container.streams[index]
        assert isinstance(stream, VideoStream)
        return count_by_reading(container, stream, seconds=COUNT_SECONDS)


def _video_info(stream: VideoStream, first: _Beginning, counted: PacketCount) -> VideoInfo:
    context, frame, frames = stream.codec_context, first.frames[0], first.frames
    layout = layout_of(frame.format.name)
    codec = context.codec.canonical_name
    rotation, is_mirrored = rotation_of(frame, codec, stream.metadata)
    tags = tags_of(context, frame)
    base = stream.time_base or Fraction(1, 1000)
    located = chroma_location(codec, layout.chroma, context.extradata or first.packet)
    field_order = _field_order(stream, frames)
    duration = _duration(stream, counted, base)
    return VideoInfo(
        index=stream.index,
        codec=codec,
        size=Size(frame.width, frame.height),
        pixel_format=frame.format.name,
        chroma=layout.chroma,
        bit_depth=layout.bit_depth,
        has_alpha=has_alpha(frames, codec),
        has_unread_alpha=first.has_alpha_beside and not has_alpha(frames, codec),
        frame_rate=_rate(stream, counted, duration),
        time_base=base,
        start_pts=FrameTimes(stream).pts_of(frame),
        frame_count=counted.frames if counted.is_complete else 0,
        frame_count_is_exact=counted.is_complete and not _may_hold_fields(context, field_order),
        duration=duration,
        sample_aspect=_aspect(stream, frame),
        rotation=rotation,
        is_mirrored=is_mirrored,
        tags=replace(tags, chroma_location=located),
        is_interlaced=field_order != "progressive",
        field_order=field_order,
        hdr=hdr_of(tags),
        hdr_metadata=hdr_metadata_of(frames, codec),
        bit_rate=_bit_rate(stream, counted, duration),
        language=stream.language or "",
        marks=marks_of(stream),
        title=title_of(stream.metadata),
    )


def _field_order(stream: VideoStream, frames: list[VideoFrame]) -> str:
    order = _FIELD_ORDERS.get(stream.codec_context.field_order)
    if order is None and any(frame.interlaced_frame for frame in frames):
        order = "bb" if stream.codec_context.name == "dvvideo" else "tt"
    return order or "progressive"


def _may_hold_fields(context: VideoCodecContext, field_order: str) -> bool:
    """Interlaced streams of these codecs may have one packet for each field."""
    return field_order != "progressive" and context.codec.canonical_name in _FIELD_CODECS


def _aspect(stream: VideoStream, frame: VideoFrame) -> Fraction:
    for ratio in (stream.sample_aspect_ratio, stream.codec_context.sample_aspect_ratio):
        if ratio:
            return Fraction(ratio)
    return Fraction(1)


def _duration(stream: VideoStream, counted: PacketCount, base: Fraction) -> Fraction | None:
    if counted.is_complete and counted.start_pts is not None and counted.end_pts is not None:
        return (counted.end_pts - counted.start_pts) * base
    if stream.duration:
        return stream.duration * base
    if counted.is_complete and stream.guessed_rate and counted.start_pts is None:
        return counted.frames / stream.guessed_rate
    return None


def _rate(stream: VideoStream, counted: PacketCount, duration: Fraction | None) -> Fraction | None:
    for rate in (stream.average_rate, stream.guessed_rate, stream.base_rate):
        if rate and 0 < rate <= 1000:
            return rate
    if counted.is_complete and duration:
        return (counted.frames / duration).limit_denominator(1001)
    return None


def _bit_rate(stream: VideoStream, counted: PacketCount, duration: Fraction | None) -> int:
    if counted.is_complete and duration:
        return round(counted.bytes * 8 / duration)
    return int(stream.bit_rate or 0)


def _estimated(video: VideoInfo) -> VideoInfo:
    """Fills in a frame count from time and rate where counting took too long."""
    if video.frame_count or not video.duration or not video.frame_rate:
        return video
    return replace(video, frame_count=max(1, round(video.duration * video.frame_rate)))


# --- frames of another kind than the first ones

_NEAR = 0.03  # shapes that differ less are meant to be the same: 59:54 and 16:15 of DV


class KindReader:
    """Tells the kinds of a video's frames.

    The shape of pixels follows the coded stream, unless the container states another one: that
    counts for all frames.

    Args:
        video: Properties of its first frames.
        stream: Stream of the opened file, before anything is decoded.

    Attributes:
        contradiction: Container and coded stream state different shapes; () where they do not.
    """

    def __init__(self, video: VideoInfo, stream: VideoStream) -> None:
        self.video, self._stream = video, stream
        coded = stream.codec_context.sample_aspect_ratio
        self._follows = not coded or coded == video.sample_aspect
        self.contradiction: tuple[Change, ...] = ()
        if coded and abs(coded / video.sample_aspect - 1) > _NEAR:
            both = map(video.shape_with, (video.sample_aspect, Fraction(coded)))
            taken, other = map(ratio_text, both)
            self.contradiction = (Change(what="coded-aspect", taken=taken, other=other, share=1),)

    def kind_of(self, frame: VideoFrame) -> FrameKind:
        """The kind of a frame that was decoded last."""
        video, context = self.video, self._stream.codec_context
        # PyAV 18.1 shows no shape of frames: the decoder's, at most some frames ahead
        coded = context.sample_aspect_ratio if self._follows else None
        return FrameKind(
            size=Size(frame.width, frame.height),
            pixel_format=frame.format.name,
            sample_aspect=Fraction(coded or video.sample_aspect),
            tags=tags_of(context, frame),
            turn=rotation_of(frame, video.codec, self._stream.metadata),
        )


def with_kind(video: VideoInfo, kind: FrameKind, frame: VideoFrame) -> VideoInfo:
    """A video whose frames are mostly of another kind than the first ones.

    Args:
        video: Properties of its first frames.
        kind: Kind of most frames.
        frame: One of them.
    """
    found = replace(
        video,
        sample_aspect=kind.sample_aspect,
        rotation=kind.turn[0],
        is_mirrored=kind.turn[1],
        tags=replace(kind.tags, chroma_location=video.tags.chroma_location),
        hdr=hdr_of(kind.tags),
    )
    if kind.size != video.decoded_size:
        found = replace(found, size=kind.size, cropped=Margins())
    if kind.pixel_format != video.pixel_format:
        layout = layout_of(kind.pixel_format)
        found = replace(
            found,
            pixel_format=kind.pixel_format,
            chroma=layout.chroma,
            bit_depth=layout.bit_depth,
            has_alpha=layout.has_alpha,
            has_unread_alpha=video.has_unread_alpha and not layout.has_alpha,
        )
    if found.hdr != video.hdr:
        found = replace(found, hdr_metadata=hdr_metadata_of([frame], video.codec))
    return found
