"""A file that grows piece by piece, and its SHA-256 that grows with it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Self

from engine.core.control import Control
from engine.downloads.hashing import OnProgress, ignore_progress, pieces

Guard = Callable[[], AbstractContextManager[None]]
"""Block around each write; translates errors of the system."""


class PartFile:
    """A part of a file, opened for appending; what exists of it is read once for the hash.

    Attributes:
        path: Of the part.
        bytes: Its length.
    """

    def __init__(
        self,
        path: Path,
        guard: Guard,
        on_progress: OnProgress = ignore_progress,
        control: Control | None = None,
    ) -> None:
        """Open or create it.

        Raises:
            EngineError: From `guard`: the folder cannot be written.
            WeightsUnreadable: The existing part cannot be read.
            Cancelled: The control was cancelled.
        """
        self.path = path
        self._guard = guard
        self._digest = hashlib.sha256()
        if path.is_file():
            for piece in pieces(path, on_progress, control):
                self._digest.update(piece)
        with guard():
            self._file = path.open("ab", buffering=0)  # other processes see its true length
        self.bytes = self._file.seek(0, os.SEEK_END)

    @property
    def sha256(self) -> str:
        """Of the content so far, in hexadecimal digits."""
        return self._digest.hexdigest()

    def write(self, piece: bytes) -> None:
        """Append; on a full disk the bytes that were written count."""
        rest = memoryview(piece)
        while rest:
            with self._guard():
                count = self._file.write(rest)
            self._digest.update(rest[:count])
            self.bytes += count
            rest = rest[count:]

    def clear(self) -> None:
        """Remove the content."""
        with self._guard():
            self._file.truncate(0)
        self._digest = hashlib.sha256()
        self.bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close it; without an exception the content is on the disk afterwards."""
        with self._file:
            if kind is None:
                with self._guard():
                    os.fsync(self._file.fileno())
