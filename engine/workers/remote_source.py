"""The source of a film on another machine: read by ranges, kept in memory, never written down."""

from __future__ import annotations

import errno
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

BLOCK_BYTES = 1 << 20
_AHEAD = 8  # blocks that are on their way while one is read: as much as a slow link holds
_KEPT = 64  # blocks in memory
_PATIENCE_S = 60.0  # for one block

Fetch = Callable[[int, int], "Future[bytes]"]  # first byte, count


class RemoteSource:
    """A file of another machine, whose readers share what was read last.

    Memory: 64 MiB.

    Args:
        path: As the other machine calls it.
        size: Bytes.
        fetch: Begins to fetch a range; another thread brings it.
    """

    def __init__(self, path: Path, size: int, fetch: Fetch) -> None:
        self.path, self.size = path, size
        self._fetch = fetch
        self._blocks: OrderedDict[int, Future[bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def open(self) -> RangedFile:
        """Read it from the beginning; opens nothing on the other machine."""
        return RangedFile(self)

    def block(self, number: int, *, ahead: bool) -> bytes:
        """A block of the file; the last one is shorter.

        Args:
            number: Counted from 0; there is such a block.
            ahead: Blocks after it will be wanted, too.

        Raises:
            OSError: The other machine does not give it.
        """
        last = (self.size - 1) // BLOCK_BYTES
        with self._lock:
            for one in range(number, min(number + (_AHEAD if ahead else 0), last) + 1):
                self._want(one)
            wanted = self._blocks[number]
        try:
            data = wanted.result(_PATIENCE_S)
            if len(data) != min(BLOCK_BYTES, self.size - number * BLOCK_BYTES):
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(self.path))
        except Exception as err:
            with self._lock:
                if self._blocks.get(number) is wanted:
                    del self._blocks[number]
            if isinstance(err, OSError) and err.errno is not None:
                raise
            raise OSError(errno.EIO, str(err) or type(err).__name__, str(self.path)) from err
        return data

    def _want(self, number: int) -> None:
        """Have a block on its way, and let the oldest ones go."""
        if number in self._blocks:
            self._blocks.move_to_end(number)
            return
        begin = number * BLOCK_BYTES
        self._blocks[number] = self._fetch(begin, min(BLOCK_BYTES, self.size - begin))
        while len(self._blocks) > _KEPT:
            self._blocks.popitem(last=False)


class RangedFile:
    """An open RemoteSource, as `engine.core.file_access.RetryingFile` is an open file.

    Attributes:
        name, size, failure: As there.
    """

    def __init__(self, source: RemoteSource) -> None:
        self.name, self.size = f"file:{source.path}", source.size
        self.failure: OSError | None = None
        self._source, self._at = source, 0
        self._last = 0  # block that was read last

    def read(self, count: int) -> bytes:
        """The next bytes, `count` at most; b"" at the end, and where they are unreadable."""
        if self.failure is not None or not 0 <= self._at < self.size or count <= 0:
            return b""
        number, start = divmod(self._at, BLOCK_BYTES)
        ahead, self._last = number in (self._last, self._last + 1), number
        try:
            data = self._source.block(number, ahead=ahead)[start : start + count]
        except OSError as err:
            self.failure = err
            return b""
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place; the new one, in bytes from the beginning."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def tell(self) -> int:
        """The place in bytes from the beginning."""
        return self._at

    def close(self) -> None:
        """Nothing is open; what was read last stays for the next reader."""

    def __enter__(self) -> RangedFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
