"""A file for reading whose reads are repeated: drives and network shares fail now and then."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from types import TracebackType
from typing import IO

PAUSES_S = (0.0, 0.1, 0.5, 1.5, 4.0)  # before each further try
_PIECE_BYTES = 1 << 22


class RetryingFile:
    """A binary file that is opened again, at the same place, when a read fails.

    What stays unreadable looks like the end of the file, because libraries below Python take no
    exceptions; `failure` says that it is not. The file must be the one that was opened first: one
    that became shorter or was replaced fails too.

    Attributes:
        name: As FFmpeg opens exactly this file, also one named "a:b.mkv".
        size: Bytes, when it was opened.
        failure: Why a read failed for good; None while all is well.

    Raises:
        OSError: It cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.name = f"file:{path}"
        self.failure: OSError | None = None
        self._path, self._at = path, 0
        self._file: IO[bytes] | None = path.open("rb", 0)
        self._identity = _identity(self._file)
        self.size = self._identity[0]

    def read(self, count: int) -> bytes:
        """The next bytes, `count` at most; b"" at the end and after a failure."""
        if self.failure is not None:
            return b""
        for pause in (*PAUSES_S, None):
            try:
                return self._read(count)
            except OSError as err:
                if pause is None:
                    self.failure = err
                    break
            time.sleep(pause)
            self.close()
        return b""

    def read_all(self) -> bytes:
        """Everything from here to the end.

        Raises:
            OSError: A read failed for good.
        """
        pieces = []
        while piece := self.read(_PIECE_BYTES):
            pieces.append(piece)
        if self.failure is not None:
            raise self.failure
        return b"".join(pieces)

    def _read(self, count: int) -> bytes:
        if self._file is None:
            self._file = self._path.open("rb", 0)
            if _identity(self._file) != self._identity:
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(self._path))
            self._file.seek(self._at)
        data = self._file.read(count)
        if not data and count and self._at < self.size:
            raise OSError(errno.EIO, "the file has become shorter", str(self._path))
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place; the new one, in bytes from the beginning."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        self._at = max(0, start + offset)
        if self._file is not None:
            self._file.seek(self._at)
        return self._at

    def tell(self) -> int:
        """The place in bytes from the beginning."""
        return self._at

    def close(self) -> None:
        """Close it; a later read opens it again."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def __enter__(self) -> RetryingFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _identity(file: IO[bytes]) -> tuple[int, int, int]:
    about = os.fstat(file.fileno())
    return about.st_size, about.st_mtime_ns, about.st_ino
