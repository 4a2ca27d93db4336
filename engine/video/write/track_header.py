"""Facts of tracks that FFmpeg's muxers do not accept: written into the finished file.

PyAV cannot pass stereo 3D layouts, projections and, for Matroska, sample aspect ratios to the
muxer. The header of the finished file is rewritten with the same length, so that nothing behind it
moves: the name of the video's track is made longer before it is written (`make_room`), and what is
taken from it afterwards is the room for elements (MKV) or boxes (MP4, MOV).

Languages of MOV need no room. FFmpeg writes the 97 that Macintosh had numbers for, under one name
("ger", not "deu"; no "swe"), and nothing for others; QuickTime reads any three letters of ISO 639-2
in their place, five bits each, as MP4 has them. Neither does the bit that turns a track on: FFmpeg
sets it for the first subtitles where none are marked as default.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path

from engine.core.errors import OutputError
from engine.core.geometry import Size
from engine.video.read.ebml import SEGMENT, TRACKS, EbmlElement, children
from engine.video.write.containers import CONTAINERS

_FILLER = "."
_MKV_ROOM = 160  # bytes: more than all elements together
_LONGEST_NAME = 127  # bytes of a handler's name in MOV that FFmpeg reads again
_HEADER_BYTES = 16 << 20  # of an MKV: tracks come early; their headers are small


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackFacts:
    """Facts that are written afterwards; those that are "" or None are not."""

    display: Size | None = None  # width and height in MKV, before a stereo layout multiplies them
    stereo3d: str = ""  # layout, as in `Statement.value`
    spherical: str = ""  # projection, as in `Statement.value`
    languages: tuple[str, ...] = ()  # for MOV, one a track in their order: three letters or ""
    off: tuple[bool, ...] = ()  # for MP4 and MOV, one a track: whether players do not show it


def states_stereo3d(container: str, value: str) -> bool:
    """Whether a container has a word for a stereo 3D layout."""
    if container == "webm":
        return _MKV_STEREO.get(value, 0) in _WEBM_STEREO
    return value in (_MKV_STEREO if container == "mkv" else _MP4_STEREO)


def states_projection(value: str) -> bool:
    """Whether MKV, MP4 and MOV have a word for a projection."""
    return value.partition(",")[0] in _PROJECTIONS


def states_aspect(codec: str) -> bool:
    """Whether the stream itself states its sample aspect ratio."""
    return codec in ("h264", "hevc")


def display_size(size: Size, aspect: Fraction) -> Size:
    """Width and height with exactly the display aspect ratio, about as high as the frame."""
    display = aspect * Fraction(size.width, size.height)
    times = max(1, round(size.height / display.denominator))
    while max(display.numerator, display.denominator) * times > 65535 and times > 1:
        times //= 2
    return Size(min(65535, display.numerator * times), min(65535, display.denominator * times))


def make_room(metadata: MutableMapping[str, str], container: str, facts: TrackFacts) -> None:
    """Lengthen the name of the track in the metadata that its muxer is given."""
    if replace(facts, languages=(), off=()) == TrackFacts():
        return
    if CONTAINERS[container].is_matroska:
        metadata["title"] = metadata.get("title", "") + _MKV_ROOM * _FILLER
    else:
        room = len(_new_boxes(facts))
        name = (metadata.get("handler_name") or "VideoHandler").encode()[: _LONGEST_NAME - room]
        metadata["handler_name"] = name.decode(errors="ignore") + room * _FILLER


def write_facts(path: Path, container: str, facts: TrackFacts) -> None:
    """Write facts into a closed file whose track has room for them.

    Raises:
        OutputError: There is no such room.
    """
    if facts == TrackFacts():
        return
    try:
        if CONTAINERS[container].is_matroska:
            _write_mkv(path, facts)
        else:
            _write_mp4(path, facts)
    except _NoRoom as err:
        raise OutputError("no-track-room", name=path.name, path=path) from err


class _NoRoom(Exception):
    """The header is not as it was expected."""


# --- Matroska

_ENTRY, _VIDEO, _NAME = 0xAE, 0xE0, 0x536E
_WIDTH, _HEIGHT, _UNIT, _STEREO, _VOID, _CRC = 0x54B0, 0x54BA, 0x54B2, 0x53B8, 0xEC, 0xBF
_PROJECTION, _TYPE, _PRIVATE, _POSE = 0x7670, 0x7671, 0x7672, (0x7673, 0x7674, 0x7675)
# FFmpeg's number of the layout, "i" where the right view comes first, to StereoMode.
_MKV_STEREO = {"1": 1, "1i": 11, "2": 3, "2i": 2, "3": 13, "3i": 14}
_WEBM_STEREO = frozenset({1, 2, 3, 11})
_TWICE = {"1": Size(2, 1), "2": Size(1, 2)}  # as many views beside and above each other


def _write_mkv(path: Path, facts: TrackFacts) -> None:
    with path.open("r+b") as file:
        header = bytearray(file.read(_HEADER_BYTES))
        tracks, entry, video = _video_track(header)
        header[entry.content : entry.end] = _entry_with(header, entry, video, facts)
        for crc in children(header, tracks.content, tracks.content + 6, _CRC):
            value = zlib.crc32(header[crc.end : tracks.end])
            header[crc.content : crc.end] = value.to_bytes(4, "little")
        file.seek(tracks.start)
        file.write(header[tracks.start : tracks.end])


def _video_track(header: bytearray) -> tuple[EbmlElement, EbmlElement, EbmlElement]:
    """All tracks, the first one with a video, and the element about that."""
    for segment in children(header, 0, len(header), SEGMENT):
        for tracks in children(header, segment.content, segment.end, TRACKS):
            for entry in children(header, tracks.content, tracks.end, _ENTRY):
                for video in children(header, entry.content, entry.end, _VIDEO):
                    if tracks.end <= len(header):
                        return tracks, entry, video
    raise _NoRoom


def _entry_with(
    header: bytearray, entry: EbmlElement, video: EbmlElement, facts: TrackFacts
) -> bytes:
    """The content of a track's entry, as long as before, with facts instead of the filler."""
    found = bytearray()
    for one in children(header, entry.content, entry.end):
        if one.name == _NAME:
            name = bytes(header[one.content : one.end]).removesuffix(_MKV_ROOM * _FILLER.encode())
            found += _element(_NAME, name) if name else b""
        elif one.name != _VIDEO:
            found += header[one.start : one.end]
    about = _video_with(header, video, facts)
    length = entry.end - entry.content
    rest = length - len(found) - len(_element(_VIDEO, about))
    wider = 1 if rest == 1 else 0  # no element has one byte
    found += _element(_VIDEO, about, _SIZE_BYTES + wider)
    rest -= wider
    if rest < 0:
        raise _NoRoom
    return bytes(found + (_void(rest) if rest else b""))


def _video_with(header: bytearray, video: EbmlElement, facts: TrackFacts) -> bytes:
    replaced = {_STEREO, _WIDTH, _HEIGHT, _UNIT} | ({_PROJECTION} if facts.spherical else set())
    found = b"".join(
        header[one.start : one.end]
        for one in children(header, video.content, video.end)
        if one.name not in replaced
    )
    if facts.stereo3d:
        found += _element(_STEREO, bytes([_MKV_STEREO[facts.stereo3d]]))
    if facts.display is not None:
        views = _TWICE.get(facts.stereo3d.removesuffix("i"), Size(1, 1))
        sides = (
            (_WIDTH, facts.display.width // views.width),
            (
                _HEIGHT,
                facts.display.height // views.height,
            ),
        )
        for name, side in sides:
            found += _element(name, max(1, side).to_bytes(2, "big"))
    if facts.spherical:
        found += _projection(facts.spherical)
    return found


def _projection(value: str) -> bytes:
    projection, *numbers = value.split(",")
    pose, bounds, padding = map(int, numbers[:3]), _bounds(numbers), int(numbers[7])
    type_, content = _PROJECTIONS[projection].mkv(bounds, padding)
    inside = _element(_TYPE, bytes([type_])) + _element(_PRIVATE, content)
    for name, turn in zip(_POSE, pose, strict=True):
        inside += _element(name, struct.pack(">d", turn / 65536))
    return _element(_PROJECTION, inside)


_SIZE_BYTES = 2  # of the length of an element


def _element(name: int, content: bytes, width: int = _SIZE_BYTES) -> bytes:
    size = (len(content) | 1 << 7 * width).to_bytes(width, "big")
    return name.to_bytes((name.bit_length() + 7) // 8, "big") + size + content


def _void(length: int) -> bytes:
    """An empty element of `length` bytes, 2 at least."""
    if length < 4:
        return bytes([_VOID, 0x80 | length - 2]) + bytes(length - 2)
    return _element(_VOID, bytes(length - 3))


# --- MP4 and MOV

_MP4_STEREO = {"1": 2, "2": 1}
_STSD_HEADER, _HDLR_NAME = 8 + 8, 8 + 24


def boxes_of(data: bytes, start: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Name, start and end of boxes between two positions, up to the first that is damaged."""
    at = start
    while at + 8 <= end:
        size, name = struct.unpack_from(">I4s", data, at)
        if size < 8 or at + size > end:
            return
        yield name, at, at + size
        at += size


def _write_mp4(path: Path, facts: TrackFacts) -> None:
    new = _new_boxes(facts)
    with path.open("r+b") as file:
        start, size = _moov(file.read, file.seek)
        file.seek(start)
        moov = file.read(size)
        changed = _rewritten(moov, _track_rewriter(new)) if new else moov
        if len(changed) != size or (new and changed == moov):
            raise _NoRoom
        changed = _rewritten(changed, partial(_with_track_facts, facts))
        file.seek(start)
        file.write(changed)


_NO_LANGUAGE = (0x7FFF).to_bytes(2, "big")


def _with_track_facts(facts: TrackFacts, name: bytes, box: bytes) -> bytes:
    """A track with its language where FFmpeg has written none, and turned off if it is to be."""
    if name != b"trak":
        return box
    number = 0

    def change(name: bytes, box: bytes) -> bytes:
        nonlocal number
        is_long = len(box) > 8 and box[8] == 1  # times of 64 bits
        if name == b"tkhd":
            (number,) = struct.unpack_from(">I", box, 28 if is_long else 20)
            if facts.off[number - 1 : number] == (True,):
                return box[:11] + bytes([box[11] & ~1]) + box[12:]
        elif name == b"mdia":
            return _rewritten(box, change)
        elif name == b"mdhd":
            at = 40 if is_long else 28
            language = "".join(facts.languages[number - 1 : number])
            if language and box[at : at + 2] == _NO_LANGUAGE:
                return box[:at] + _packed(language) + box[at + 2 :]
        return box

    return _rewritten(box, change)


def _packed(language: str) -> bytes:
    first, second, third = (ord(letter) - 0x60 for letter in language)
    return (first << 10 | second << 5 | third).to_bytes(2, "big")


def _moov(read: Callable[[int], bytes], seek: Callable[[int], int]) -> tuple[int, int]:
    at = 0
    while True:
        seek(at)
        header = read(16)
        if len(header) < 16:
            raise _NoRoom
        size, name = struct.unpack_from(">I4s", header)
        size = struct.unpack_from(">Q", header, 8)[0] if size == 1 else size
        if name == b"moov":
            return at, size
        if size < 8:
            raise _NoRoom
        at += size


def _rewritten(box: bytes, change: Callable[[bytes, bytes], bytes], head: int = 8) -> bytes:
    """A box with its children changed, by their names; its own length follows."""
    children = (change(name, box[a:b]) for name, a, b in boxes_of(box, head, len(box)))
    content = box[8:head] + b"".join(children)
    return struct.pack(">I4s", 8 + len(content), box[4:8]) + content


def _track_rewriter(new: bytes) -> Callable[[bytes, bytes], bytes]:
    """Changes the track of video: the boxes go into its sample entry, from the room in its name."""
    filler = len(new) * _FILLER.encode()

    def change(name: bytes, box: bytes) -> bytes:
        return _rewritten(box, inside) if name == b"trak" and filler in box else box

    def inside(name: bytes, box: bytes) -> bytes:
        if name in (b"mdia", b"minf", b"stbl"):
            return _rewritten(box, inside)
        if name == b"hdlr" and filler in box:
            return _renamed(box, filler)
        if name == b"stsd":
            return _rewritten(box, lambda _, entry: _extended(entry, new), _STSD_HEADER)
        return box

    return change


def _renamed(box: bytes, filler: bytes) -> bytes:
    """The box of a handler without the filler in its name."""
    name = box[_HDLR_NAME:].replace(filler, b"")
    if box[_HDLR_NAME] == len(box) - _HDLR_NAME - 1:  # MOV: its length comes first
        name = bytes([len(name) - 1]) + name[1:]
    return _box(b"hdlr", box[8:_HDLR_NAME] + name)


def _extended(entry: bytes, new: bytes) -> bytes:
    return struct.pack(">I", len(entry) + len(new)) + entry[4:] + new


def _box(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(content), name) + content


def _full_box(name: bytes, content: bytes) -> bytes:
    return _box(name, bytes(4) + content)


def _new_boxes(facts: TrackFacts) -> bytes:
    found = b""
    if facts.stereo3d:
        found += _full_box(b"st3d", bytes([_MP4_STEREO[facts.stereo3d]]))
    if facts.spherical:
        projection, *numbers = facts.spherical.split(",")
        pose = struct.pack(">3i", *map(int, numbers[:3]))
        name, content = _PROJECTIONS[projection].mp4(_bounds(numbers), int(numbers[7]))
        inside = _full_box(b"prhd", pose) + _full_box(name, content)
        found += _box(b"sv3d", _full_box(b"svhd", b"\0") + _box(b"proj", inside))
    return found


# --- projections, by FFmpeg's number


@dataclass(frozen=True, slots=True)
class _Projection:
    mkv_type: int
    box: bytes
    has_bounds: bool

    def mp4(self, bounds: bytes, padding: int) -> tuple[bytes, bytes]:
        return self.box, bounds if self.has_bounds else struct.pack(">2I", 0, padding)

    def mkv(self, bounds: bytes, padding: int) -> tuple[int, bytes]:
        return self.mkv_type, bytes(4) + self.mp4(bounds, padding)[1]


_EQUIRECTANGULAR = _Projection(1, b"equi", has_bounds=True)
_PROJECTIONS = {
    "0": _EQUIRECTANGULAR,
    "1": _Projection(2, b"cbmp", has_bounds=False),
    "2": _EQUIRECTANGULAR,  # a part of one, within bounds
}


def _bounds(numbers: list[str]) -> bytes:
    """Top, bottom, left and right of what is shown, as shares of 2^32."""
    left, top, right, bottom = (int(number) & 0xFFFFFFFF for number in numbers[3:7])
    return struct.pack(">4I", top, bottom, left, right)
