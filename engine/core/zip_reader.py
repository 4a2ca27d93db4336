"""The one reader of zip archives that others made: wheels, PyTorch files, segments.

The standard library checks one name of a member and gives out another one where an archive states
two, and raises whatever its parser meets in damaged bytes.
"""

from __future__ import annotations

import errno
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import BinaryIO

_MOST_BYTES = 2**24  # read at once: a list of contents, a piece
_PIECE_BYTES = 2**20
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_RAISED = (
    *(ValueError, TypeError, LookupError, AttributeError, OverflowError, EOFError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error, struct.error),  # NotImplementedError is a RuntimeError
)


class UnreadableZip(Exception):
    """An archive that is damaged; the text says how."""


class AmbiguousZip(UnreadableZip):
    """An archive that gives one file two names, or one name to two files."""


class ZipReader:
    """The files of an open archive, by the one name that each has.

    Attributes:
        members: Entry of each file by its name; directories are left out. A name is as it stands
            in the archive: not yet one that may be used as a path.

    Args:
        file: An archive that can be sought; it stays open, and must not be changed meanwhile.

    Raises:
        UnreadableZip: It is no archive.
        AmbiguousZip: A member has two names, or two have one.
        OSError: The disk fails.
    """

    def __init__(self, file: BinaryIO) -> None:
        with _translated():
            self._archive = zipfile.ZipFile(_FewBytes(file))
            infos = self._archive.infolist()
        members: dict[str, zipfile.ZipInfo] = {}
        for info in infos:
            name = info.orig_filename
            if name != info.filename:  # a Unicode path, a NUL, a backslash on Windows
                raise AmbiguousZip(f"it names one file both {name!r} and {info.filename!r}")
            if name in members:
                raise AmbiguousZip(f"it contains {name!r} twice")
            members[name] = info
        self.members = MappingProxyType(
            {name: info for name, info in members.items() if not name.endswith("/")}
        )

    def pieces(self, name: str) -> Iterator[bytes]:
        """Content of a member, of its stated size; its checksum is compared.

        Raises:
            KeyError: There is no such member.
            UnreadableZip: It is damaged, encrypted or compressed by another method than Deflate.
            OSError: The disk fails.
        """
        info = self.members[name]
        if info.compress_type not in _METHODS:
            raise UnreadableZip(f"{name!r} is compressed by method {info.compress_type}")
        with _translated():
            member = self._archive.open(info)
        left = info.file_size
        with member:
            while left:
                with _translated():
                    piece = member.read(_PIECE_BYTES)
                if not piece:
                    raise UnreadableZip(f"{name!r} lacks {left} bytes")
                left -= len(piece)
                yield piece
            with _translated():
                member.read(1)  # the checksum of an empty one

    def read(self, name: str, most_bytes: int | None = None) -> bytes:
        """Whole content of a member, as `pieces` gives it.

        Raises:
            UnreadableZip: It is longer than `most_bytes` too.
        """
        if most_bytes is not None and self.members[name].file_size > most_bytes:
            raise UnreadableZip(f"{name!r} is too long")
        return b"".join(self.pieces(name))


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except _RAISED as err:
        raise UnreadableZip(str(err) or type(err).__name__) from err


class _FewBytes:
    """A file of which no more is read at once than a list of contents can have."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.tell, self.seekable = file.tell, file.seekable

    def seek(self, offset: int, whence: int = 0) -> int:
        try:
            return self._file.seek(offset, whence)
        except OSError as err:
            if err.errno != errno.EINVAL:
                raise
            raise zipfile.BadZipFile("an offset before the start of the file") from err

    def read(self, count: int = -1) -> bytes:
        found = self._file.read(count if 0 <= count <= _MOST_BYTES else _MOST_BYTES + 1)
        if len(found) > _MOST_BYTES:
            raise zipfile.BadZipFile("too long")
        return found
