"""Opening of a media file: only this file, only as media, with errors for the user."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import av
from av import Packet
from av.format import ContainerFormat

from engine.core.errors import (
    EngineError,
    InputError,
    OutOfMemory,
    SourceUnreadable,
    TruncatedMedia,
    UnreadableMedia,
    UnsupportedMedia,
    memory_ran_out,
)
from engine.core.file_access import RetryingFile, in_time, read_error, reading

if TYPE_CHECKING:
    from av.container import InputContainer

import os
import re
from typing import BinaryIO

MAX_SIDE = 16384  # px
_BUFFER_BYTES = 1 << 18  # of one read
# How far a file is read, and kept in memory, for tracks that begin late: bytes and us.
_LATE = {"probesize": str(64 << 20), "analyzeduration": str(600_000_000)}

# Not media of this file alone: text shown as a picture, lists of other files, devices, raw bytes.
_DENIED_TEXT = """
    alsa avisynth bin bitpacked concat concatf dash data dshow dvbsub dvbtxt fbdev ffmetadata
    gdigrab gfxcapture hls idf adf iec61883 image2 image2pipe imf jack kmsgrab lavfi libcdio
    libdc1394 opengl oss pulse rawvideo rtp rtsp sap sdp sga smoothstreaming svg_pipe tty v210 v210x
    vapoursynth vfwcap video4linux2,v4l2 vobsub webm_dash_manifest x11grab xbin xcbgrab
"""
_DENIED = frozenset(_DENIED_TEXT.split())


class SourceFile(Protocol):
    """File that a video is read from; a `RetryingFile`."""

    failure: OSError | None

    def read(self, count: int, /) -> bytes:
        """The next bytes; b"" at the end, and where they are unreadable."""
        ...

    def seek(self, offset: int, whence: int = ..., /) -> int:
        """Go to a place."""
        ...


Opening = Callable[[], AbstractContextManager[SourceFile]]
_elsewhere: dict[Path, Opening] = {}


@contextmanager
def lies_elsewhere(path: Path, opening: Opening) -> Iterator[None]:
    """Read what `open_input` opens under this path from somewhere else, in all threads."""
    _elsewhere[path] = opening
    try:
        yield
    finally:
        del _elsewhere[path]


def _opened(path: Path) -> AbstractContextManager[SourceFile]:
    opening = _elsewhere.get(path)
    if opening is not None:
        return opening()
    check_readable(path)
    return RetryingFile(path)


def check_readable(path: Path) -> int:
    """Size of a file in bytes.

    Raises:
        SourceMissing: There is nothing of that name.
        SourceUnreadable: This user may not read it, or it is no ordinary file.
        UnreadableMedia: The file is empty.
    """
    with reading(path):
        status = in_time(path.stat)
        if stat.S_ISREG(status.st_mode):
            beginning_of(path, 1)
    if not stat.S_ISREG(status.st_mode):
        raise SourceUnreadable("not-a-file", name=path.name, path=path)
    if status.st_size == 0:
        raise UnreadableMedia("empty", name=path.name, path=path)
    return status.st_size


def beginning_of(path: Path, count: int) -> bytes:
    """The first bytes of a file.

    Raises:
        OSError: They cannot be read.
    """
    with RetryingFile(path) as file:
        data = file.read(count)
        if file.failure is not None:
            raise file.failure
    return data


@contextmanager
def open_input(path: Path, *, must_be_whole: bool = True) -> Iterator[InputContainer]:
    """Open a file as media; it is closed at the end.

    Nothing but this one file is ever read: playlists, lists of files and network addresses are
    refused, and so are formats that would draw text as a picture.

    Args:
        path: The file; it may lie elsewhere.
        must_be_whole: A drive that fails meanwhile is an error, though FFmpeg takes that for damage
            or for the end of the file.

    Raises:
        InputError: One of its kinds; see `translated`.

    Memory: up to 64 MB of packets, where sound begins so late that more must be read to know it.
    """
    with reading(path), _opened(path) as file:
        try:
            with translated(path):
                container = _with_late_tracks(path, file)
            try:
                yield container
            finally:
                container.close()
        except (InputError, av.error.FFmpegError):
            if file.failure is None:
                raise
            raise file.failure from None
        if must_be_whole and file.failure is not None:
            raise file.failure


def _with_late_tracks(path: Path, file: SourceFile) -> InputContainer:
    """An opened file; probed further for tracks whose first packet comes late, once per process."""
    container = _container(file)
    found, mark = _tracks(container), (path, container.size)
    if any(found) and mark not in _without_late:
        container.close()
        file.seek(0)
        container = _container(file, **_LATE)
        if _tracks(container) == found:
            _without_late.add(mark)
    return container


_without_late: set[tuple[Path, int]] = set()  # paths and sizes of files


def _tracks(container: InputContainer) -> list[bool]:
    """Whether each track is an unknown sound."""
    return [_is_unknown_sound(stream) for stream in container.streams]


def _container(file: SourceFile, **options: str) -> InputContainer:
    # WORKAROUND for PyAV 18.1: without memory for its buffer it writes to nowhere.
    bytearray(4 * _BUFFER_BYTES)
    allowed = {"protocol_whitelist": "file", "format_whitelist": _allowed_formats()}
    return av.open(
        file,
        "r",
        container_options={**allowed, **options},
        metadata_errors="replace",
        buffer_size=_BUFFER_BYTES,
    )


def _is_unknown_sound(stream: Any) -> bool:
    """Whether nothing of a sound track was seen that no header describes, as in a recording."""
    context = stream.codec_context
    return stream.type == "audio" and context is not None and not context.sample_rate


def stream_at(path: Path, container: InputContainer, index: int) -> Any:
    """A stream that was there when the file was probed.

    Raises:
        UnreadableMedia: The file has changed since, and has fewer streams.
    """
    if index >= len(container.streams):
        raise UnreadableMedia("fewer-streams", name=path.name, path=path)
    return container.streams[index]


def failure_of(container: InputContainer) -> OSError | None:
    """Why the file could not be read any further; None where it could."""
    found: OSError | None = container.file.file.failure
    return found


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turns errors of PyAV and the system inside into errors about `path`.

    Raises:
        SourceMissing, SourceUnreadable: The system refused, in an OSError that is none of FFmpeg.
        TruncatedMedia: Unreadable, and the end of the file is missing.
        UnsupportedMedia: FFmpeg has no decoder, or is not able to.
        OutOfMemory: The machine refused memory.
        UnreadableMedia: Everything else: not media, or damaged beyond use.
    """
    try:
        yield
    except (av.error.FFmpegError, OSError, MemoryError, NotImplementedError) as err:
        if memory_ran_out(err):
            raise OutOfMemory("decoding", name=path.name, path=path) from err
        raise _translated(err, path) from err


def _translated(err: Exception, path: Path) -> EngineError:
    match err:
        case av.error.PatchWelcomeError() | av.error.DecoderNotFoundError() | NotImplementedError():
            return UnsupportedMedia("no-decoder", name=path.name, path=path)
        case av.error.FFmpegError():  # also "input/output error", for mere damage
            return _unreadable(path)
        case OSError():
            return read_error(err, path)
    raise err


def check_size(path: Path, width: int, height: int) -> None:
    """Refuse pictures without pixels and absurdly large ones.

    Raises:
        UnsupportedMedia: A side is 0, or longer than 16384 px.
    """
    about: dict[str, Any] = {"path": path, "width": width, "height": height}
    size = f"{width}x{height}"
    if width <= 0 or height <= 0:
        raise UnsupportedMedia("no-size", name=path.name, size=size, **about)
    if max(width, height) > MAX_SIDE:
        raise UnsupportedMedia("too-large", name=path.name, size=size, side=MAX_SIDE, **about)


@cache
def _allowed_formats() -> str:
    names = []
    for name in av.formats_available:
        try:
            format_ = ContainerFormat(name, "r")
        except ValueError:
            continue  # only written
        if format_.name not in _DENIED:
            names.append(format_.name)
    return ",".join(sorted(set(names)))


def _unreadable(path: Path) -> InputError:
    if is_truncated(path):
        return TruncatedMedia("end-missing", name=path.name, path=path)
    return UnreadableMedia("undecodable", name=path.name, path=path)


def packets_of(container: InputContainer, stream: Any) -> Iterator[Packet[Any]]:
    """Packets of a stream, or of a list of them, then empty ones that flush decoders.

    Raises:
        av.error.FFmpegError: The file or the disk is damaged.
    """
    # WORKAROUND for PyAV 18.1: it raises at the end of files with late streams (MPEG-TS), after the
    # empty packets of all streams that it knows.
    with suppress(IndexError):
        yield from container.demux(stream)


def readable_packets(
    path: Path,
    container: InputContainer,
    streams: Sequence[Any],
    damaged: Callable[[], None] = lambda: None,
) -> Iterator[Packet[Any]]:
    """Packets of some streams as far as a file can be read, then empty ones.

    Args:
        path: Path of the file.
        container: It, opened.
        streams: Streams of the container.
        damaged: Called where the rest cannot be read.

    Raises:
        OutOfMemory: The machine refused memory.
        SourceMissing, SourceUnreadable: It is the disk that is bad, not the file.
    """
    packets = packets_of(container, streams)
    while True:
        try:
            packet = next(packets, None)
        except (av.error.FFmpegError, OSError) as err:
            if memory_ran_out(err):
                with translated(path):
                    raise
            damaged()
            packet = None
            yield empty_packet()
        if packet is None:
            return
        yield packet


def empty_packet() -> Packet[Any]:
    """The packet that flushes a decoder."""
    return Packet()


# --- what the first and last bytes of a file state

_MP4_BOXES = frozenset(
    (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"moof", b"sidx", b"styp", b"uuid")
)
_EBML, _SEGMENT = b"\x1a\x45\xdf\xa3", b"\x18\x53\x80\x67"
_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
_UNKNOWN_SIZE = 0xFFFFFFFF  # of a RIFF file that was written to a pipe
_LAST = 4096  # bytes, where the end mark usually is
_PART = 1 << 20  # bytes that are searched at once
_MARKER = re.compile(rb"\xff[^\x00\x01\xd0-\xd7\xff]")  # within the pixels of a JPEG: their end


class Readable(Protocol):
    """A binary file, at any place."""

    def read(self, count: int, /) -> bytes:
        """The next bytes; fewer at the end."""
        ...

    def seek(self, offset: int, /) -> int:
        """Go to a place."""
        ...


def is_truncated(path: Path) -> bool:
    """True when a container states that it is longer than the file.

    Knows MP4, MOV and HEIF (top-level boxes), Matroska and WebM (a segment of known size), AVI, WAV
    and WebP (RIFF), PNG and JPEG (end marks, whatever follows them). Everything else, and a file
    that cannot be read, counts as whole. Reads a few bytes of each top-level part; all of a JPEG
    that does not end with its end mark.
    """
    try:
        with path.open("rb") as file:
            length = os.fstat(file.fileno()).st_size
            header = file.read(12)
            if header[4:8] in _MP4_BOXES:
                return _is_mp4_truncated(file, length)
            if header[:4] == _EBML:
                return _is_matroska_truncated(file, length)
            if header[:4] == b"RIFF":
                return _is_riff_truncated(file, length)
            if header[:8] == _PNG:
                return not _ends_with(file, length, b"IEND") and png_end(file) is None
            if header[:3] == _JPEG:
                return not _ends_with(file, length, b"\xff\xd9") and jpeg_end(file) is None
    except OSError:
        return False
    return False


def _ends_with(file: BinaryIO, length: int, mark: bytes) -> bool:
    file.seek(max(0, length - _LAST))
    return mark in file.read(_LAST)


def png_end(file: Readable) -> int | None:
    """Bytes up to the end of a PNG, without what follows it; None where the end is missing."""
    at = len(_PNG)
    while True:
        file.seek(at)
        head = file.read(8)
        if len(head) < 8:
            return None
        at += 12 + int.from_bytes(head[:4], "big")
        if head[4:] == b"IEND":
            return at


def jpeg_end(file: Readable, start: int = 0) -> int | None:
    """Bytes up to the end of a JPEG, without what follows it; None where the end is missing.

    Small images and videos follow the photograph of many phones.

    Args:
        file: The file.
        start: Offset at which the JPEG begins.
    """
    at = start + 2
    while True:
        file.seek(at)
        head = file.read(4)
        if len(head) < 2 or head[0] != 0xFF:
            return None
        if head[1] == 0xD9:
            return at + 2
        if head[1] == 0xFF:  # filler
            at += 1
            continue
        at += 2 + int.from_bytes(head[2:], "big")
        if head[1] == 0xDA:
            found = _marker_after(file, at)
            if found is None:
                return None
            at = found


def _marker_after(file: Readable, at: int) -> int | None:
    """The next place of a JPEG's marker that ends pixels; None where there is none."""
    while True:
        file.seek(at)
        part = file.read(_PART)
        found = _MARKER.search(part)
        if found is not None:
            return at + found.start()
        if len(part) < _PART:
            return None
        at += _PART - 1


def _is_riff_truncated(file: BinaryIO, length: int) -> bool:
    """Large AVI files have several RIFF parts in succession."""
    at = 0
    while at + 8 <= length:
        file.seek(at)
        header = file.read(8)
        size = int.from_bytes(header[4:], "little")
        if header[:4] != b"RIFF" or size == _UNKNOWN_SIZE:
            return False
        at += 8 + size + size % 2
    return at > length + 1


def _is_mp4_truncated(file: BinaryIO, length: int) -> bool:
    """A box beyond the end, or samples without any index.

    The index of a photograph (HEIF) is its box "meta"; a segment of a stream has one in "moof", and
    lacks its beginning, not its end. Whatever follows a whole video does not count.
    """
    at, seen = 0, set[bytes]()
    while at + 8 <= length:
        file.seek(at)
        header = file.read(16)
        size, kind = int.from_bytes(header[:4], "big"), header[4:8]
        if size == 1:
            size = int.from_bytes(header[8:16], "big")
        if size == 0:
            size = length - at  # reaches to the end
        if size < 8 or (not seen and kind not in _MP4_BOXES):
            break  # no MP4 after all, or other data after it
        if at + size > length:
            is_whole = {b"moov", b"mdat"} <= seen and kind not in _MP4_BOXES
            return not is_whole
        seen.add(kind)
        at += size
    return b"mdat" in seen and not seen & {b"moov", b"moof", b"meta"}


def _is_matroska_truncated(file: BinaryIO, length: int) -> bool:
    at = 0
    for _ in range(8):  # the header, perhaps padding, then the segment
        file.seek(at)
        header = file.read(12)
        if len(header) < 5:
            return False
        size, width = _variable_size(header[4:])
        if header[:4] == _SEGMENT:
            return size is not None and at + 4 + width + size > length
        if header[:4] != _EBML or size is None:
            return False
        at += 4 + width + size
    return False


def _variable_size(data: bytes) -> tuple[int | None, int]:
    """A size in EBML's variable length, None when unknown, and the bytes it takes."""
    width = next((n for n in range(1, 9) if data[0] >> (8 - n) & 1), 0)
    if width == 0 or len(data) < width:
        return None, 1
    value = int.from_bytes(data[:width], "big") & ((1 << 7 * width) - 1)
    return (None if value == (1 << 7 * width) - 1 else value), width
