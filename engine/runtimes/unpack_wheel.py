"""Unpacks wheels: never outside the folder or without bound, and only what a program needs."""

from __future__ import annotations

import re
import stat
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from engine.core.control import Control
from engine.core.errors import UnsafeArchive
from engine.core.windows_paths import LONG, problem_on_windows
from engine.downloads.hashing import OnProgress, ignore_progress

_PIECE_BYTES = 2**20
_MOST_FILES = 100_000
_MOST_GROWTH = 60  # times the size of the wheel: text packs to a twentieth at best
_FREE_BYTES = 2**20  # small archives may grow more
_LONGEST_NAME = 240  # characters, of a path in the wheel
# Headers, import libraries, debugging data and programs of developers: half of the files.
_LEFT_OUT = re.compile(
    r"torch/(test|include|share)/|torch/bin/(?!torch_shm_manager)|.*\.(lib|pdb)$|.*\.pyc$"
)
# Files of a wheel that belong elsewhere than into its packages; only libraries are unpacked.
_DATA = re.compile(r"[^/]+\.data/(?:(?:purelib|platlib)/(?P<kept>.+)|.*)")


def needed_bytes(wheels: Iterable[BinaryIO]) -> int:
    """Bytes that these wheels take when they are unpacked.

    Raises:
        UnsafeArchive: One is damaged or would do harm.
    """
    return sum(info.file_size for wheel in wheels for _, info in _examined(wheel))


def unpack(
    wheel: BinaryIO,
    folder: Path,
    on_progress: OnProgress = ignore_progress,
    control: Control | None = None,
) -> dict[str, int]:
    """Unpack what a program needs of a wheel.

    Args:
        wheel: The open file whose SHA-256 was compared.
        folder: Destination; existing files are an error.
        on_progress: Called with bytes written and bytes in total.
        control: Cancels it.

    Returns:
        Bytes of every file by its path in the folder, with "/".

    Raises:
        UnsafeArchive: It is damaged, or would write outside the folder; found before the first
            byte is written where possible.
        OSError: The folder cannot be written.
        Cancelled: The control was cancelled.
    """
    control = control or Control()
    members = _examined(wheel)
    total, done = sum(info.file_size for _, info in members), 0
    root = long_path(folder)
    with zipfile.ZipFile(wheel) as archive:
        for name, info in members:
            target = root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as file:
                for piece in _pieces(archive, info, wheel):
                    control.check()
                    file.write(piece)
                    done += len(piece)
                    on_progress(done, total)
    return {name: info.file_size for name, info in members}


def long_path(folder: Path) -> Path:
    """A folder in the form that Windows allows long paths for; unchanged on other systems."""
    text = str(folder.absolute())
    if sys.platform != "win32" or text.startswith(LONG):
        return folder
    return Path(f"{LONG}UNC{text[1:]}" if text.startswith("\\\\") else f"{LONG}{text}")


def _examined(wheel: BinaryIO) -> list[tuple[str, zipfile.ZipInfo]]:
    """The members to unpack, each with its path; refuses the whole archive for one bad member."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [info for info in archive.infolist() if not info.is_dir()]
        most_bytes = _FREE_BYTES + _MOST_GROWTH * wheel.seek(0, 2)
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as err:
        raise _unsafe(wheel, f"it is not a readable archive ({err})") from err
    if len(members) > _MOST_FILES or sum(info.file_size for info in members) > most_bytes:
        raise _unsafe(wheel, "it contains far more data than a wheel")
    seen: set[str] = set()
    kept = []
    for info in members:
        why_not = _why_not(info)
        if why_not or info.filename.casefold() in seen:
            raise _unsafe(wheel, why_not or f"it contains {info.filename!r} twice")
        seen.add(info.filename.casefold())
        name = place_of(info.filename)
        if name:
            kept.append((name, info))
    return kept


def _why_not(info: zipfile.ZipInfo) -> str:
    """Fault of a member; "" for none."""
    name = info.orig_filename
    parts = name.split("/")
    if len(name) > _LONGEST_NAME or not all(map(_is_name, parts)):
        return f"it contains a file with the invalid path {name!r}"
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG) or info.flag_bits & 0x1:
        return f"it contains {name!r}, which is not a regular file"
    return ""


def _is_name(part: str) -> bool:
    """Whether a component of a path is a file name on every system."""
    return part not in ("", ".", "..") and problem_on_windows(part) is None


def place_of(name: str) -> str:
    """Path of a wheel's member in the folder of the runtime; "" for members that are left out."""
    data = _DATA.fullmatch(name)
    if data is not None:
        name = data["kept"] or ""
    return "" if _LEFT_OUT.match(name) else name


def _pieces(archive: zipfile.ZipFile, info: zipfile.ZipInfo, wheel: BinaryIO) -> Iterator[bytes]:
    """Content of a member, never more than its stated size; the checksum is compared at the end."""
    try:
        with archive.open(info) as member:
            while piece := member.read(_PIECE_BYTES):
                yield piece
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as err:
        raise _unsafe(wheel, f"it contains the damaged file {info.filename} ({err})") from err


def _unsafe(wheel: BinaryIO, why: str) -> UnsafeArchive:
    path = Path(wheel.name)
    return UnsafeArchive("wheel", name=path.name, why=why, path=path)
