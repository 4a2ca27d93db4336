"""Finished segments on their way from the machine that made them to the one that has the film.

They go in pieces. The last one has the SHA-256 of all, and only what has it gets its name.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable
from pathlib import Path

from engine.core import atomic_file
from engine.farm.errors import SegmentDamaged
from engine.pipeline.segments import made_path
from engine.video.write.segment_file import rename_durably

logger = logging.getLogger(__name__)

PIECE_BYTES = 1 << 20
Send = Callable[[int, bytes, str], bool]  # where a piece begins, piece, SHA-256 with the last one


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
    """Segments that come from other machines, in the folder of the job.

    Memory: one piece for each machine.

    Args:
        folder: Of the job.
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
