"""Identity of files: SHA-256 with progress and cancel, also of growing downloads; signatures."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

from engine.core.control import Control
from engine.core.errors import EngineError, OutOfMemory, WeightsUnreadable, is_memory_refusal

OnProgress = Callable[[int, int], None]
"""Called with bytes done and bytes in total (0 while unknown)."""
Guard = Callable[[], AbstractContextManager[None]]
"""Block around each write; translates errors of the system."""

_PIECE_BYTES = 2**22
_MOST_SIGNATURES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIdentity:
    """Facts that show whether a file is another one than before, or was written to."""

    bytes: int
    modified_ns: int  # time of change, which a user can set
    # Time that a user cannot set: on POSIX of the last change of any kind, also of its name; on
    # Windows of its creation.
    changed_ns: int

    @classmethod
    def of(cls, file: BinaryIO | Path) -> Self:
        """Identity of a file; raises OSError where it is missing."""
        about = file.stat() if isinstance(file, Path) else os.fstat(file.fileno())
        # TRAP: on Windows st_ctime is that of creation for a path, that of change for an open file.
        changed: int = getattr(about, "st_birthtime_ns", about.st_ctime_ns)
        return cls(bytes=about.st_size, modified_ns=about.st_mtime_ns, changed_ns=changed)


def ignore_progress(_done: int, _total: int) -> None:
    """An `OnProgress` without effect."""


def sha256_of(
    path: Path, on_progress: OnProgress = ignore_progress, control: Control | None = None
) -> str:
    """SHA-256 of a file in hexadecimal digits.

    Raises:
        WeightsUnreadable, Cancelled: See `pieces`.
    """
    with hashed(path, on_progress, control) as (_, digest):
        return digest


@contextmanager
def hashed(
    path: Path, on_progress: OnProgress = ignore_progress, control: Control | None = None
) -> Iterator[tuple[BinaryIO, str]]:
    """An open file and its SHA-256; the block reads the very bytes that were hashed.

    Another file may take its name meanwhile: this one stays open.

    Raises:
        WeightsUnreadable: See `pieces`; or it was changed until the block ended.
        Cancelled: The control was cancelled.
    """
    with _opened(path) as file:
        before, digest = FileIdentity.of(file), hashlib.sha256()
        for piece in _pieces(file, path, on_progress, control):
            digest.update(piece)
        file.seek(0)
        yield file, digest.hexdigest()
        if FileIdentity.of(file) != before:
            raise WeightsUnreadable("changed", name=path.name, path=path)


def pieces(
    path: Path, on_progress: OnProgress = ignore_progress, control: Control | None = None
) -> Iterator[bytes]:
    """A file from beginning to end in pieces of 4 MiB; progress is reported after each.

    Raises:
        WeightsUnreadable: The file is missing, may not be read, or the disk fails.
        Cancelled: The control was cancelled.
    """
    with _opened(path) as file:
        yield from _pieces(file, path, on_progress, control)


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as err:
        raise _unreadable(path, err) from err


def _pieces(
    file: BinaryIO, path: Path, on_progress: OnProgress, control: Control | None
) -> Iterator[bytes]:
    control = control or Control()
    total, done = os.fstat(file.fileno()).st_size, 0
    while True:
        try:
            piece = file.read(_PIECE_BYTES)
        except OSError as err:
            raise _unreadable(path, err) from err
        if not piece:
            return
        control.check()
        yield piece
        done += len(piece)
        on_progress(done, total)


def _unreadable(path: Path, error: OSError) -> EngineError:
    if is_memory_refusal(error):
        return OutOfMemory("file", name=path.name, path=path)
    return WeightsUnreadable("reason", name=path.name, reason=error.strerror or error, path=path)


class PartFile:
    """An unfinished file, opened for appending; its present content is read once for the hash."""

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
            WeightsUnreadable, Cancelled: The existing part cannot be read; see `pieces`.
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
        """SHA-256 of the content so far, in hexadecimal digits."""
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


def signers(content: bytes, signatures: str, keys: Sequence[str]) -> tuple[str, ...]:
    """The known keys that have signed these bytes with Ed25519.

    Args:
        content: The signed bytes.
        signatures: In Base64, one a line.
        keys: Public keys, 64 hexadecimal digits each.
    """
    from nacl.exceptions import BadSignatureError
    from nacl.signing import VerifyKey

    found = []
    for line in signatures.split()[:_MOST_SIGNATURES]:
        try:
            signature = base64.b64decode(line, validate=True)
        except ValueError:
            continue
        for key in keys:
            try:
                VerifyKey(bytes.fromhex(key)).verify(content, signature)
            except (BadSignatureError, ValueError):
                continue
            found.append(key)
    return tuple(found)
