"""Opens a file for reading: only this file, only as media, with errors a user understands."""

from __future__ import annotations

import errno
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

import av
from av import Packet
from av.format import ContainerFormat

from engine.core import windows_paths
from engine.core.errors import (
    InputError,
    OutOfMemory,
    SourceMissing,
    SourceUnreadable,
    TruncatedMedia,
    UnreadableMedia,
    UnsupportedMedia,
)
from engine.video.read.truncation import is_cut_short

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream

MAX_SIDE = 16384  # px

# Not media of this file alone: text shown as a picture, lists of other files, devices, raw bytes.
_DENIED_TEXT = """
    alsa avisynth bin bitpacked concat concatf dash data dshow dvbsub dvbtxt fbdev ffmetadata
    gdigrab gfxcapture hls idf adf iec61883 image2 image2pipe imf jack kmsgrab lavfi libcdio
    libdc1394 opengl oss pulse rawvideo rtp rtsp sap sdp sga smoothstreaming svg_pipe tty v210 v210x
    vapoursynth vfwcap video4linux2,v4l2 vobsub webm_dash_manifest x11grab xbin xcbgrab
"""
_DENIED = frozenset(_DENIED_TEXT.split())
_NOT_MEDIA_HINT = "Choose a video or a picture; another player may tell what the file is."


def check_readable(path: Path) -> int:
    """Size of a file in bytes.

    Raises:
        SourceMissing: There is nothing of that name.
        SourceUnreadable: This user may not read it, or it is no ordinary file.
        UnreadableMedia: The file is empty.
    """
    try:
        status = path.stat()
        if stat.S_ISREG(status.st_mode):
            with path.open("rb") as file:
                file.read(1)
    except OSError as err:
        raise _from_os(err, path) from err
    if not stat.S_ISREG(status.st_mode):
        raise SourceUnreadable(
            f"{path.name} is not an ordinary file.", hint="Choose a file.", path=path
        )
    if status.st_size == 0:
        raise UnreadableMedia(
            f"{path.name} is empty.",
            hint="The copy or download may have failed; get the file again.",
            path=path,
        )
    return status.st_size


def check_disk(path: Path, *, seconds: float = 5.0) -> None:
    """Read through a file, or as much of it as time allows, to tell a bad disk from a bad file.

    Raises:
        SourceMissing, SourceUnreadable, UnreadableMedia: As `check_readable`.
    """
    check_readable(path)
    deadline = time.monotonic() + seconds
    try:
        with path.open("rb") as file:
            while file.read(1 << 20) and time.monotonic() < deadline:
                pass
    except OSError as err:
        raise _from_os(err, path) from err


@contextmanager
def open_input(path: Path) -> Iterator[InputContainer]:
    """Open a file as media; it is closed at the end.

    Nothing but this one file is ever read: playlists, lists of files and network addresses are
    refused, and so are formats that would draw text as a picture.

    Raises:
        InputError: One of its kinds; see `translated`.
    """
    check_readable(path)
    with translated(path):
        container = av.open(
            address_of(path),
            container_options={
                "protocol_whitelist": "file",
                "format_whitelist": _allowed_formats(),
            },
            metadata_errors="replace",
        )
    try:
        yield container
    finally:
        container.close()


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turns what PyAV and the system raise inside into errors about `path`.

    Raises:
        SourceMissing, SourceUnreadable: The system refused.
        TruncatedMedia: Unreadable, and the end of the file is missing.
        UnsupportedMedia: FFmpeg has no decoder, or is not able to.
        OutOfMemory: The machine refused memory.
        UnreadableMedia: Everything else: not media, or damaged beyond use.
    """
    try:
        yield
    except (av.error.PatchWelcomeError, av.error.DecoderNotFoundError, NotImplementedError) as err:
        raise UnsupportedMedia(
            f"{path.name} uses something that cannot be decoded.",
            hint="Convert it to a common format such as H.264 in MP4 first.",
            path=path,
        ) from err
    except av.error.MemoryError as err:
        raise OutOfMemory(
            f"There is not enough memory to decode {path.name}.",
            hint="Close other programs and try again.",
            path=path,
        ) from err
    except (av.error.InvalidDataError, av.error.ArgumentError, av.error.EOFError) as err:
        raise _unreadable(path) from err
    except av.error.FFmpegError as err:
        # FFmpeg also says "input/output error" or "not permitted" of mere damage: ask the system.
        check_disk(path)
        raise _unreadable(path) from err
    except OSError as err:
        raise _from_os(err, path) from err


def address_of(path: Path) -> str:
    """What FFmpeg opens as exactly this file, also for names such as "a:b.mkv"."""
    return f"file:{path}"


def check_size(path: Path, width: int, height: int) -> None:
    """Refuse pictures without pixels and absurdly large ones.

    Raises:
        UnsupportedMedia: A side is 0, or longer than 16384 px.
    """
    if width <= 0 or height <= 0:
        raise UnsupportedMedia(
            f"The picture of {path.name} has no usable size ({width}x{height}).",
            hint="The file is damaged or was never finished.",
            path=path,
            width=width,
            height=height,
        )
    if max(width, height) > MAX_SIDE:
        raise UnsupportedMedia(
            f"The picture of {path.name} is too large ({width}x{height}).",
            hint=f"Pictures up to {MAX_SIDE} pixels a side can be used.",
            path=path,
            width=width,
            height=height,
        )


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
    if is_cut_short(path):
        return TruncatedMedia(
            f"{path.name} is incomplete: its end is missing.",
            hint="The copy or download may have stopped early; get the file again.",
            path=path,
        )
    return UnreadableMedia(
        f"{path.name} is not a video or picture, or it is damaged beyond use.",
        hint=_NOT_MEDIA_HINT,
        path=path,
    )


def _from_os(err: OSError, path: Path) -> InputError:
    if err.errno in (errno.ENOENT, errno.ENOTDIR):
        return SourceMissing(
            f"{windows_paths.shown(path)} does not exist.",
            hint="Check the name, or whether the drive is connected.",
            path=path,
        )
    if err.errno in (errno.EACCES, errno.EPERM):
        return SourceUnreadable(
            f"{path.name} may not be read by this user.",
            hint="Change the permissions of the file, or copy it elsewhere.",
            path=path,
        )
    return SourceUnreadable(
        f"{path.name} could not be read: {err.strerror or err}.",
        hint="Check the drive and try again.",
        path=path,
    )


def packets_of(container: InputContainer, stream: VideoStream) -> Iterator[Packet[VideoStream]]:
    """Packets of a stream, then an empty one that makes the decoder hand out the rest.

    Raises:
        av.error.FFmpegError: The file is damaged, or the disk.
    """
    try:
        yield from container.demux(stream)
    except IndexError:
        # WORKAROUND for PyAV 18.1: its end fails where streams were found on the way (MPEG-TS).
        yield empty_packet()


def empty_packet() -> Packet[VideoStream]:
    """What tells a decoder that nothing more comes."""
    return cast("Packet[VideoStream]", Packet())
