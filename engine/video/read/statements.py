"""Statements of a video beside its code values: by a rule, all that no other check covers.

Side data of frames and of the stream, and groups of streams, are read whatever their kind. Left
out are two lists: kinds that describe only the coding of the source, and kinds that other fields
of `VideoInfo` hold, whose loss other checks notice. All else, unknown kinds included, is a
`Statement`.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import av
import av.logging
import numpy as np
from av.filter import Graph

from engine.core.geometry import Margins, Size
from engine.core.units import ratio_text
from engine.protocol.media import Change, ChangeKind, ColourTags, MediaInfo, Statement
from engine.video.read.field_filter import TimedFrame
from engine.video.read.hdr10_plus import UNWRITABLE, hdr10_plus_message

if TYPE_CHECKING:
    from av.container import InputContainer

_OF_THE_CODING = frozenset(
    {
        *("sei-unregistered", "motion-vectors", "video-enc-params", "video-hint", "skip-samples"),
        *("regions-of-interest", "detection-bboxes", "film-grain-params", "quality-stats"),
        *("cpb-properties", "palette", "new-extradata", "param-change", "h263-mb-info"),
        *("mpegts-stream-id", "producer-reference-time", "rtcp-sender-report", "metadata-update"),
    }
)
_HELD_ELSEWHERE = frozenset(
    {"displaymatrix", "mastering-display-metadata", "content-light-level", "frame-cropping"}
)
# One name where FFmpeg has several, or PyAV none.
_SAME = {
    "display-matrix": "displaymatrix",
    "stereo-3d": "stereo3d",
    "spherical-mapping": "spherical",
    "content-light-level-metadata": "content-light-level",
    "a53-cc": "captions",
    "atsc-a53-part-4-closed-captions": "captions",
    "active-format-description-data": "afd",
    "dovi-rpu-buffer": "dolby-vision",
    "dovi-metadata": "dolby-vision",
    "dovi-configuration-record": "dolby-vision",
    "dynamic-hdr-plus": "hdr10-plus",
    "hdr10-dynamic-metadata-smpte-2094-40": "hdr10-plus",
    "dynamic-hdr-vivid": "hdr-vivid",
    "ambient-viewing-environment": "ambient-viewing",
    "s12m-timecode": "time-code",
    "gop-timecode": "time-code",
    "smpte-st-12-1-2014-timecode": "time-code",
    "panscan": "pan-scan",
    "side-data-28": "lcevc",
    "side-data-29": "view-id",
    "side-data-30": "reference-displays",
    "side-data-31": "exif",
    "lcevc-nal-data": "lcevc",
    "3d-reference-displays-info": "reference-displays",
}
_STREAM = re.compile(r"^ +Stream #\d+:(\d+)")
_GROUP = re.compile(r"^ +Stream group #\d+:\d+[^:]*: ([\w ]+)")
_SIDE_DATA = re.compile(r"^    Side data:$")
_ENTRY = re.compile(r"^      (\S.*?)(?:: (.*))?$")
_DOLBY = re.compile(r"profile: (\d+).*compatibility id: (\d+)")
_DROPS = re.compile(r"[.,](\d\d)$")  # other signs for numbers that are dropped: FFmpeg writes ";"
_CROPPING = re.compile(r"^(\d{1,5})/(\d{1,5})/(\d{1,5})/(\d{1,5})$")
_IPT = 2  # AVDOVIColorMetadata.signal_color_space
_SPACE_AT, _OFFSETS = 185, 3  # bytes; sizes at the start of AVDOVIMetadata
_GOP_MARKER = 1 << 12
_level = threading.Lock()
_READ_TWICE = ("png", "apng")
_MOST_UNKNOWN = 8  # kinds in one frame


# --- side data of frames


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


# --- statements


def stream_statements(container: InputContainer, index: int) -> tuple[Statement, ...]:
    """Everything that a file states of one of its streams, by kind; it decodes nothing."""
    found = dict(_of_container(container, index))
    return tuple(Statement(kind=kind, value=value) for kind, value in sorted(found.items()))


def with_statements(media: MediaInfo, stated: Mapping[str, str]) -> MediaInfo:
    """Facts about a video, of which frames make further statements.

    Args:
        media: A value that it has already is kept: the stream's word counts before that of frames.
        stated: Values by kind.
    """
    known = {one.kind: one.value for one in media.statements}
    of_pictures = {"icc-profile": media.video.profile, "exif": media.video.has_exif}
    for kind, value in stated.items():
        if not of_pictures.get(kind):
            known[kind] = known.get(kind) or value
    found = (Statement(kind=kind, value=value) for kind, value in sorted(known.items()))
    return replace(media, statements=tuple(found))


def stated_by(frame: Any, codec: str) -> dict[str, str]:
    """Kinds and values that a decoded frame states."""
    found = side_data_of(frame, codec)
    return {
        kind: _value_of(name, content)
        for name, content in found.items()
        if (kind := _kind_of(name)) and not _is_empty(name, content, frame)
    }


def _is_empty(name: str, content: bytes, frame: Any) -> bool:
    """Whether side data are those of encoders that state nothing by them."""
    if name == "panscan":  # AVPanScan: the window in 1/16 px; MPEG-2 always has one
        _, width, height = np.frombuffer(content, np.int32, 3) // 16
        return width in (0, frame.width) and height in (0, frame.height)
    if name == "gop-timecode":  # at 0, as encoders write that have none; a bit of it is always set
        return not int.from_bytes(content[:8], "little") & ~_GOP_MARKER
    return name == "stereo3d" and not any(content[:4])  # flat


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameStatement:
    """Statements of one frame: their kinds, captions, and the message of HDR10+."""

    kinds: frozenset[str] = frozenset()
    captions: bytes = b""
    hdr10_plus: bytes = b""

    def followed_by(self, other: FrameStatement) -> FrameStatement:
        """Statements of a frame that is made of this one and the next."""
        return FrameStatement(
            kinds=self.kinds | other.kinds,
            captions=self.captions + other.captions,
            hdr10_plus=other.hdr10_plus or self.hdr10_plus,
        )


class FrameStatements:
    """Statements of frames of a source, for the frames that are made of them.

    Filters may make two frames of one, or leave one out: each frame of theirs gets what the frames
    up to its time state and no frame before it got.

    Args:
        codec: FFmpeg's name.
        time_parts: Time base of the result's frames, in units of that of the source.
    """

    def __init__(self, codec: str, time_parts: int) -> None:
        self._codec = codec
        self._time_parts = time_parts
        self._waiting: deque[tuple[int, FrameStatement]] = deque()

    def noted(self, frames: Iterator[TimedFrame]) -> Iterator[TimedFrame]:
        """The frames of the source, unchanged."""
        for one in frames:
            data = side_data_of(one.frame, self._codec)
            if data:
                stated = FrameStatement(
                    kinds=frozenset(stated_by(one.frame, self._codec)),
                    captions=data.get("a53-cc", b""),
                    hdr10_plus=hdr10_plus_message(data.get("dynamic-hdr-plus", b"")),
                )
                self._waiting.append((one.pts * self._time_parts, stated))
            yield one

    def until(self, pts: int) -> FrameStatement:
        """Statements of the frames up to the time of a frame that was made of them."""
        found = FrameStatement()
        while self._waiting and self._waiting[0][0] <= pts:
            found = found.followed_by(self._waiting.popleft()[1])
        return found


def _kind_of(name: str) -> str:
    """The kind of some side data; "" where it is no statement about the video."""
    kind = _SAME.get(name, name)
    return "" if kind in _OF_THE_CODING or kind in _HELD_ELSEWHERE else kind


def _value_of(kind: str, data: bytes) -> str:
    """The content of some side data as text, where it is compared or shown."""
    if kind == "stereo3d":  # AVStereo3D: type, flags, view
        numbers = np.frombuffer(data, np.int32, 3)
        return _stereo3d(*map(int, numbers))
    if kind == "spherical":  # AVSphericalMapping: projection, pose and bounds
        return ",".join(map(str, np.frombuffer(data, np.int32, 9).tolist()))
    if kind == "s12m-timecode":
        return _smpte_time_code(int.from_bytes(data[4:8], "little"))
    if kind == "gop-timecode":
        return _gop_time_code(int.from_bytes(data[:8], "little"))
    if kind == "dovi-metadata":
        offset = int.from_bytes(data[16:24], "little")  # of the colours, the third size_t
        is_ipt = data[offset + _SPACE_AT : offset + _SPACE_AT + 1] == bytes([_IPT])
        return "ipt" if is_ipt else ""
    if kind == "dynamic-hdr-plus":
        return "" if hdr10_plus_message(data) else UNWRITABLE
    return ""


def _stereo3d(type_: int, flags: int, view: int) -> str:
    """FFmpeg's number of a layout of two views, whether it is inverted, and which views it has."""
    return f"{type_}{'i' if flags & 1 else ''}{f'v{view}' if view else ''}"


def _smpte_time_code(code: int) -> str:
    """Time code of SMPTE ST 12: binary coded decimals, frames first from the top."""

    def two(at: int, tens: int) -> int:
        return (code >> at + 4 & tens) * 10 + (code >> at & 15)

    frames, seconds, minutes, hours = two(24, 3), two(16, 7), two(8, 7), two(0, 3)
    drop = ";" if code & 1 << 30 else ":"
    return f"{hours:02}:{minutes:02}:{seconds:02}{drop}{frames:02}"


def _gop_time_code(code: int) -> str:
    """Time code of a group of pictures of MPEG-2: 25 bits."""
    drop = ";" if code & 1 << 24 else ":"
    hours, minutes = code >> 19 & 31, code >> 13 & 63
    return f"{hours:02}:{minutes:02}:{code >> 6 & 63:02}{drop}{code & 63:02}"


def cropping_of(container: InputContainer, index: int) -> Margins:
    """Margins that the container crops from each frame: FFmpeg leaves that to the caller."""
    found = dict(_described_side_data(container, index)).get("frame-cropping", "")
    match = _CROPPING.match(found)
    left, right, top, bottom = map(int, match.groups()) if match else (0, 0, 0, 0)
    return Margins(left, top, right, bottom)


def _of_container(container: InputContainer, index: int) -> Iterator[tuple[str, str]]:
    """Statements about a stream, as FFmpeg describes them."""
    for name, text in _described_side_data(container, index):
        if kind := _kind_of(name):
            yield kind, _described_value(kind, text)
    code = _tag(container.metadata, "timecode") or next(
        (code for stream in container.streams if (code := _tag(stream.metadata, "timecode"))), ""
    )
    if code:
        yield "time-code", _DROPS.sub(r";\1", code)


def _described_side_data(container: InputContainer, index: int) -> Iterator[tuple[str, str]]:
    """Names and contents of a stream's side data, and of groups of streams."""
    current, is_inside = -1, False
    for line in described(container).splitlines():
        if match := _STREAM.match(line):
            current, is_inside = int(match[1]), False
        elif match := _GROUP.match(line):
            yield "stream-group", match[1].strip().lower()
        elif _SIDE_DATA.match(line):
            is_inside = current == index
        elif is_inside and (match := _ENTRY.match(line)):
            yield re.sub(r"[^a-z0-9]+", "-", match[1].lower()).strip("-"), match[2] or ""
        else:
            is_inside = False


def _tag(metadata: Mapping[str, str], name: str) -> str:
    return next((value for key, value in metadata.items() if key.lower() == name), "")


def _described_value(kind: str, text: str) -> str:
    if kind == "dolby-vision" and (match := _DOLBY.search(text)):
        return f"{match[1]}.{match[2]}"
    return text if kind == "stream-group" else ""


def described(container: InputContainer) -> str:
    """FFmpeg's own description of a file: all that its demuxer found, one fact a line.

    WORKAROUND for PyAV 18.1: it has no other way to side data of streams, and gives the text only
    while messages of that level are heard, which is a setting of the whole process.
    """
    with _level:
        before, skips = av.logging.get_level(), av.logging.get_skip_repeated()
        av.logging.set_skip_repeated(False)
        av.logging.set_level(av.logging.INFO)
        try:
            return str(container.dumps_format())  # type: ignore[attr-defined]  # PyAV's stubs lack it
        finally:
            av.logging.set_level(before)
            av.logging.set_skip_repeated(skips)


# --- frames of several kinds

_TAGS = ("matrix", "range", "primaries", "transfer")


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameKind:
    """Properties that a decoded frame states; all frames of most videos are of one kind."""

    size: Size
    pixel_format: str
    sample_aspect: Fraction
    tags: ColourTags
    turn: tuple[int, bool]  # result of `rotation_of`


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
