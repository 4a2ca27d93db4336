"""Transfer of a job's files between computers: the source one way, finished segments the other.

The source is read by ranges, kept in memory and never stored. Segments are sent in pieces; the last
one has the SHA-256 of all, and only a segment with that hash gets its name.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from engine.core import atomic_file
from engine.farm.errors import SegmentDamaged
from engine.pipeline.segments import made_path
from engine.video.write.segment_file import rename_durably

logger = logging.getLogger(__name__)

BLOCK_BYTES = 1 << 20  # of the source
_AHEAD = 8  # blocks that are on their way while one is read: as much as a slow link holds
_KEPT = 64  # blocks in memory
_PATIENCE_S = 60.0  # for one block
PIECE_BYTES = 1 << 20  # of a segment

Fetch = Callable[[int, int], "Future[bytes]"]  # first byte, count
Send = Callable[[int, bytes, str], bool]  # where a piece begins, piece, SHA-256 with the last one


class RemoteSource:
    """A file of another computer, whose readers share what was read last.

    Memory: 64 MiB.

    Args:
        path: Name of the file on the other computer.
        size: Bytes.
        fetch: Begins to fetch a range; another thread brings it.
    """

    def __init__(self, path: Path, size: int, fetch: Fetch) -> None:
        self.path, self.size = path, size
        self._fetch = fetch
        self._blocks: OrderedDict[int, Future[bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def open(self) -> RangedFile:
        """Read it from the beginning; opens nothing on the other computer."""
        return RangedFile(self)

    def block(self, number: int, *, ahead: bool) -> bytes:
        """A block of the file; the last one is shorter.

        Args:
            number: Counted from 0; there is such a block.
            ahead: Blocks after it will be wanted, too.

        Raises:
            OSError: The other computer does not give it.
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
    """An open RemoteSource, with the interface of `engine.core.file_access.RetryingFile`."""

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


def send_segment(path: Path, send: Send) -> None:
    """Send a segment, and delete it here.

    Raises:
        SegmentDamaged: It did not arrive as it was sent.
        OSError: It cannot be read, or the connection is lost.
    """
    digest, at = hashlib.sha256(), 0
    left = path.stat().st_size
    with path.open("rb") as file:
        while True:
            piece = file.read(PIECE_BYTES)
            digest.update(piece)
            left -= len(piece)
            is_last = left <= 0 or not piece
            is_right = send(at, piece, digest.hexdigest() if is_last else "")
            at += len(piece)
            if not is_right:
                raise SegmentDamaged(name=path.name)
            if is_last:
                break
    path.unlink()


class SegmentsReceived:
    """Segments that other computers send, in the folder of the job.

    Memory: one piece for each computer.

    Args:
        folder: Folder of the job.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def take(self, worker: int, segment: int, begin: int, piece: bytes, sha256: str) -> bool:
        """Take a piece of a segment; the last one comes with the SHA-256 of all.

        Returns:
            False where something is wrong with it; nothing of it is kept then.

        Raises:
            OSError: It cannot be written.
        """
        return await asyncio.to_thread(self._take, worker, segment, begin, piece, sha256)

    def forget(self, worker: int) -> None:
        """Delete what a worker has begun to send."""
        for part in self._folder.glob(f"segment_*.{worker}.mkv.part"):
            atomic_file.discard(part)

    def _take(self, worker: int, segment: int, begin: int, piece: bytes, sha256: str) -> bool:
        path = made_path(self._folder, segment, worker)
        part = path.with_name(f"{path.name}.part")
        try:
            with part.open("ab" if begin else "wb") as file:
                is_right = file.tell() == begin
                file.write(piece)
            if is_right and not sha256:
                return True
            if is_right and _sha256_of(part) == sha256:
                rename_durably(part, path)
                return True
        except OSError as err:
            atomic_file.discard(part)
            if isinstance(err, FileNotFoundError) and self._folder.is_dir():
                return False  # the worker has gone meanwhile, and what it had begun with it
            raise
        logger.warning("segment %d of worker %d is damaged", segment, worker + 1)
        atomic_file.discard(part)
        return False


def _sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
