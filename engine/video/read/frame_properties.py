"""Properties of decoded frames: time stamps, also where a file has none or wrong ones; kinds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from engine.core.geometry import Margins, Size
from engine.core.units import ratio_text
from engine.protocol.media import Change, ChangeKind, ColourTags, VideoInfo
from engine.video.colour_tags import hdr_of, tags_of
from engine.video.planes import layout_of
from engine.video.read.stream_info import hdr_metadata_of, rotation_of

if TYPE_CHECKING:
    from av import VideoFrame
    from av.video.stream import VideoStream

# Seconds that a clock goes back at least where another part of a recording begins; what goes back
# by less is a wrong time stamp.
JUMP_S = Fraction(1, 2)
_WRAP_BITS = 33  # of the clock of a broadcast: FFmpeg counts on where it starts again from 0
_LEAST_S = Fraction(1, 1000)  # between frames whose stamps do not rise: MKV has no smaller unit
_LEAP_S = 10  # that a time stamp of a broadcast leaps ahead at least, if it is wrong
BROADCAST = frozenset({"mpegts", "mpeg"})  # containers whose packets state times in full


class StampCheck:
    """Finds time stamps of a broadcast that a bit error made leap ahead.

    A leap counts when the next stamp confirms it: then nothing was sent for a while. Subtitles are
    not checked, they leap.
    """

    def __init__(self, container: str) -> None:
        self.is_broadcast = container in BROADCAST
        self._leapt = Fraction(0)

    def is_wrong(self, time: int, last: int | None, base: Fraction) -> bool:
        """Whether a stamp cannot be meant.

        Args:
            time: In the time base.
            last: The stamp before it; None at the beginning.
            base: Time base, s.
        """
        if not self.is_broadcast or last is None or (time - last) * base < _LEAP_S:
            return False
        before, self._leapt = self._leapt, time * base
        return not 0 <= self._leapt - before <= JUMP_S


class FrameTimes:
    """Time stamps of decoded frames, also where a file has none.

    A frame keeps the stamp of its packet. Where the container has only decoding times (AVI), those
    are taken, which are right after reordering. Streams without any times (raw H.264) get exact
    ones from the frame rate. Stamps always rise: one that does not is moved to 1 ms
    after the frame before it, and a clock that jumps back goes on from there.
    """

    def __init__(self, stream: Any, check: StampCheck | None = None) -> None:
        self._base = Fraction(stream.time_base or Fraction(1, 1000))
        self._rate = Fraction(stream.guessed_rate or stream.average_rate or 25)
        self._frame_units = max(1, round(1 / self._rate / self._base))  # of a frame, nominal
        self._least_units = math.ceil(_LEAST_S / self._base)
        self._origin: int | None = None
        self._untimed = 0  # frames without a stamp since the origin
        self._last: int | None = None
        self._shift = 0
        self._check = check
        self._lap: int | None = None
        self.jumps = 0  # how often the clock jumped back
        self.wraps = 0  # how often a broadcast's clock reached its end

    def pts_of(self, frame: Any) -> int:
        """The stamp of the next frame in decoding order, in the stream's time base."""
        pts = frame.pts if frame.pts is not None else frame.dts
        if pts is None or self._is_wrong(pts):
            pts = self._from_rate()
        else:
            self._count_laps(pts)
            pts += self._shift
            if self._last is not None and (self._last - pts) * self._base > JUMP_S:
                self._shift += self._last + self._frame_units - pts
                pts = self._last + self._frame_units
                self.jumps += 1
            self._origin, self._untimed = pts, 0
        if self._last is not None and pts <= self._last:
            pts = self._last + self._least_units
        self._last = int(pts)
        return self._last

    def _is_wrong(self, pts: int) -> bool:
        check = self._check
        return check is not None and check.is_wrong(pts + self._shift, self._last, self._base)

    def _count_laps(self, pts: int) -> None:
        if self._check is not None and self._check.is_broadcast:
            lap = pts >> _WRAP_BITS
            self.wraps += self._lap is not None and lap > self._lap
            self._lap = lap

    def _from_rate(self) -> int:
        if self._origin is None:
            self._origin = 0
            return 0
        self._untimed += 1
        return self._origin + round(self._untimed / self._rate / self._base)


# --- kinds

_NEAR = 0.03  # shapes that differ less are meant to be the same: 59:54 and 16:15 of DV
_TAGS = ("matrix", "range", "primaries", "transfer")


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameKind:
    """Properties that a decoded frame states; all frames of most videos are of one kind."""

    size: Size
    pixel_format: str
    sample_aspect: Fraction
    tags: ColourTags
    turn: tuple[int, bool]  # result of `rotation_of`


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


def changes_of(main: FrameKind, shares: Mapping[FrameKind, float]) -> Iterator[Change]:
    """Differences from most frames, each with the share of the frames that have it.

    Args:
        main: Kind of most frames.
        shares: Share of each kind, 0 to 1.
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
