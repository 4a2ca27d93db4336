"""Unpacking of a wheel of torch: never outside the folder, and never without bound.

Only what a program needs is written.
"""

from __future__ import annotations

import re
import stat
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from engine.core.control import Control
from engine.core.errors import UnsafeArchive
from engine.core.paths import LONG_PREFIX, problem_on_windows
from engine.core.zip_reader import AmbiguousZip, UnreadableZip, ZipReader
from engine.files.hashing import OnProgress, ignore_progress

_MOST_FILES = 100_000
_MOST_GROWTH = 60  # unpacked over packed size; text is packed to a twentieth at best
_FREE_BYTES = 2**20  # allowed besides, for small archives
_BYTECODE = 1.3  # size of bytecode to that of its modules: 1.20 of torch 2.13
_LONGEST_NAME = 240  # characters, of a path in the wheel
# Headers, import libraries, debugging data and programs of developers: half of the files.
_LEFT_OUT = re.compile(
    r"torch/(test|include|share)/|torch/bin/(?!torch_shm_manager)|.*\.(lib|pdb)$|.*\.pyc$"
)
# Files of a wheel that belong elsewhere than into its packages; only libraries are unpacked.
_DATA = re.compile(r"[^/]+\.data/(?:(?:purelib|platlib)/(?P<kept>.+)|.*)")


def needed_bytes(wheels: Iterable[BinaryIO]) -> int:
    """Bytes that these wheels take when they are unpacked; raises UnsafeArchive as `unpack`."""
    return sum(info.file_size for wheel in wheels for info in _examined(wheel)[1].values())


def bytecode_bytes(wheels: Iterable[BinaryIO]) -> int:
    """Bytes to reserve for the bytecode of their modules."""
    modules = (
        info.file_size
        for wheel in wheels
        for place, info in _examined(wheel)[1].items()
        if place.endswith(".py")
    )
    return round(_BYTECODE * sum(modules))


def unpack(
    wheel: BinaryIO,
    folder: Path,
    on_progress: OnProgress = ignore_progress,
    control: Control | None = None,
) -> dict[str, int]:
    """Unpack the files of a wheel that a program needs.

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
    archive, members = _examined(wheel)
    total, done = sum(info.file_size for info in members.values()), 0
    root = long_path(folder)
    for place, info in members.items():
        target = root / place
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            try:
                for piece in archive.pieces(info.orig_filename):
                    control.check()
                    file.write(piece)
                    done += len(piece)
                    on_progress(done, total)
            except UnreadableZip as err:
                why = f"it contains the damaged file {info.orig_filename} ({err})"
                raise _unsafe(wheel, why) from err
    return {place: info.file_size for place, info in members.items()}


def long_path(folder: Path) -> Path:
    """A folder in the form that Windows allows long paths for; unchanged on other systems."""
    text = str(folder.absolute())
    if sys.platform != "win32" or text.startswith(LONG_PREFIX):
        return folder
    return Path(
        f"{LONG_PREFIX}UNC{text[1:]}" if text.startswith("\\\\") else f"{LONG_PREFIX}{text}"
    )


def _examined(wheel: BinaryIO) -> tuple[ZipReader, dict[str, zipfile.ZipInfo]]:
    """The members to unpack, by their paths; refuses the whole archive for one bad member."""
    try:
        archive = ZipReader(wheel)
        size = wheel.seek(0, 2)
    except AmbiguousZip as err:
        raise _unsafe(wheel, str(err)) from err
    except (UnreadableZip, OSError) as err:
        raise _unsafe(wheel, f"it is not a readable archive ({err})") from err
    members = archive.members
    most_bytes = _FREE_BYTES + _MOST_GROWTH * size
    if len(members) > _MOST_FILES or sum(info.file_size for info in members.values()) > most_bytes:
        raise _unsafe(wheel, "it contains far more data than a wheel")
    kept = []
    for name, info in members.items():
        why_not = _why_not(name, info)
        if why_not:
            raise _unsafe(wheel, why_not)
        place = place_of(name)
        if place:
            kept.append((place, info))
    for names in (members, [place for place, _ in kept]):
        same = _same_twice(names)
        if same:
            raise _unsafe(wheel, f"it contains {same!r} twice")
    return archive, dict(kept)


def _same_twice(names: Iterable[str]) -> str:
    """The first path that Windows takes for another one, or for a folder of one; "" for none."""
    folded = [name.casefold() for name in names]
    files: set[str] = set()
    for name in folded:
        if name in files:
            return name
        files.add(name)
    folders = (str(folder) for name in folded for folder in PurePosixPath(name).parents)
    return next((folder for folder in folders if folder in files), "")


def _why_not(name: str, info: zipfile.ZipInfo) -> str:
    """Fault of a member; "" for none."""
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


def _unsafe(wheel: BinaryIO, why: str) -> UnsafeArchive:
    path = Path(wheel.name)
    return UnsafeArchive("wheel", name=path.name, why=why, path=path)
