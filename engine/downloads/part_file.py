"""A file that grows piece by piece, and its SHA-256 that grows with it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Self

from engine.core.control import Control
from engine.downloads.hashing import Tell, pieces, silent

Guard = Callable[[], AbstractContextManager[None]]  # turns what the system refuses into our errors


class PartFile:
    """Opened where it ended the last time: what is there is read once, for the hash.

    Attributes:
        bytes: How long it is.
    """

    def __init__(
        self, path: Path, guard: Guard, tell: Tell = silent, control: Control | None = None
    ) -> None:
        """Open it, or begin it.

        Raises:
            EngineError: What `guard` makes of a folder that cannot be written.
            WeightsUnreadable: What is there cannot be read.
            Cancelled: `control` said so.
        """
        self.path = path
        self._guard = guard
        self._digest = hashlib.sha256()
        if path.is_file():
            for piece in pieces(path, tell, control):
                self._digest.update(piece)
        with guard():
            self._file = path.open("ab", buffering=0)  # what it took is on its way
        self.bytes = self._file.seek(0, os.SEEK_END)

    @property
    def sha256(self) -> str:
        """Of everything so far, in hexadecimal digits."""
        return self._digest.hexdigest()

    def write(self, piece: bytes) -> None:
        """Append; where the disk is full, what it took counts."""
        rest = memoryview(piece)
        while rest:
            with self._guard():
                taken = self._file.write(rest)
            self._digest.update(rest[:taken])
            self.bytes += taken
            rest = rest[taken:]

    def restart(self) -> None:
        """Throw away what is there."""
        with self._guard():
            self._file.truncate(0)
        self._digest = hashlib.sha256()
        self.bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Let it go; without an error everything is on the disk then."""
        with self._file:
            if kind is None:
                with self._guard():
                    os.fsync(self._file.fileno())
