"""What frames state besides their pixels, and what changes of that within a video."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from engine.core.geometry import Margins, Size
from engine.core.units import ratio_text
from engine.protocol.media import Change, ChangeKind, ColourTags, VideoInfo
from engine.video.colour.pixel_formats import layout_of
from engine.video.colour.tags import hdr_of, tags_of
from engine.video.read.stream_info import hdr_metadata_of, rotation_of

if TYPE_CHECKING:
    from av import VideoFrame
    from av.video.stream import VideoStream

_NEAR = 0.03  # shapes that differ less are meant to be the same: 59:54 and 16:15 of DV
_TAGS = ("matrix", "range", "primaries", "transfer")


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameKind:
    """What a decoded frame states: all frames of most videos are of one kind."""

    size: Size
    pixel_format: str
    sample_aspect: Fraction
    tags: ColourTags
    turn: tuple[int, bool]  # as `rotation_of`


class KindReader:
    """Tells the kinds of a video's frames.

    The shape of pixels follows the coded stream, unless the container states another one: that
    counts for all frames.

    Args:
        video: From its first frames.
        stream: Of the opened file, before anything is decoded.

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
        video: From its first frames.
        kind: Of most frames.
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


def changes_of(main: FrameKind, shares: Mapping[FrameKind, float]) -> Iterator[Change]:
    """What differs from most frames, each with the share of the frames that have it.

    Args:
        main: Kind of most frames.
        shares: Of each kind, 0 to 1.
    """
    found: dict[tuple[ChangeKind, str, str], float] = {}
    for kind, share in shares.items():
        for about in _differences(main, kind):
            found[about] = found.get(about, 0.0) + share
    for (what, taken, other), share in found.items():
        yield Change(what=what, taken=taken, other=other, share=share)


def _differences(main: FrameKind, other: FrameKind) -> Iterator[tuple[ChangeKind, str, str]]:
    if other.size != main.size:
        yield "size", str(main.size), str(other.size)
    elif other.pixel_format != main.pixel_format:
        yield "format", main.pixel_format, other.pixel_format
    if _shape(other) != _shape(main):
        yield "aspect", ratio_text(_shape(main)), ratio_text(_shape(other))
    tags = [(name, getattr(main.tags, name), getattr(other.tags, name)) for name in _TAGS]
    # what only some frames state is taken for all of them
    differing = [one for one in tags if one[1] and one[2] and one[1] != one[2]]
    if differing:
        taken, found = (", ".join(one[at] for one in differing) for at in (1, 2))
        yield "colours", taken, found
    if other.turn != main.turn:
        yield "rotation", str(main.turn[0]), str(other.turn[0])


def _shape(kind: FrameKind) -> Fraction:
    return kind.sample_aspect * kind.size.width / kind.size.height
