"""Files of latents as ComfyUI loads them, written piece by piece; see `latent_file`."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from engine.core.geometry import Size
from engine.models.wan.latents.file import MARKER, TENSOR

if TYPE_CHECKING:
    from torch import Tensor


class LatentWriter:
    """Writes a file of latents piece by piece, however long it becomes.

    Args:
        path: Of the file; an existing one is replaced.
        channels: Of the latents.
        grid: Positions across and down.

    Raises:
        OSError: Also later, from `add` and `close`.

    Memory: a piece. On the disk twice the size of the file while `close` runs.
    """

    def __init__(self, path: Path, channels: int, grid: Size) -> None:
        self._path, self._channels, self._grid = path, channels, grid
        self._length = 0
        self._spool_path = path.with_name(path.name + ".spool")
        self._spool: BinaryIO = self._spool_path.open("w+b")

    @property
    def length(self) -> int:
        """Latents so far."""
        return self._length

    def add(self, latents: Tensor) -> None:
        """Take the next latents [C, n, h, w]."""
        wanted = (self._channels, latents.shape[1], self._grid.height, self._grid.width)
        if tuple(latents.shape) != wanted:
            raise ValueError(f"latents of {tuple(latents.shape)} instead of {wanted}")
        values = latents.movedim(1, 0).float().contiguous().cpu().numpy()
        self._spool.write(values.astype("<f4", copy=False).tobytes())
        self._length += latents.shape[1]

    def close(self, metadata: Mapping[str, str] | None = None) -> int:
        """Complete the file, on the disk.

        Args:
            metadata: Free text to go with it.

        Returns:
            Its size in bytes.
        """
        if not self._length:
            self.discard()
            raise ValueError("a file of latents needs one")
        try:
            with self._path.open("wb") as file:
                file.write(self._head(metadata or {}))
                for channel in range(self._channels):
                    self._copy(channel, file)
                file.flush()
                os.fsync(file.fileno())
                return file.tell()
        finally:
            self.discard()

    def discard(self) -> None:
        """Give up what was not completed; nothing happens after `close`."""
        self._spool.close()
        self._spool_path.unlink(missing_ok=True)

    def _copy(self, channel: int, file: BinaryIO) -> None:
        """One channel of all latents: the file has channels outside, the spool inside."""
        plane = 4 * self._grid.pixels
        for index in range(self._length):
            self._spool.seek((index * self._channels + channel) * plane)
            file.write(self._spool.read(plane))

    def _head(self, metadata: Mapping[str, str]) -> bytes:
        size = 4 * self._channels * self._length * self._grid.pixels
        shape = [1, self._channels, self._length, self._grid.height, self._grid.width]
        head = {
            TENSOR: {"dtype": "F32", "shape": shape, "data_offsets": [0, size]},
            MARKER: {"dtype": "F32", "shape": [0], "data_offsets": [size, size]},
        }
        if metadata:
            head["__metadata__"] = dict(metadata)
        text = json.dumps(head, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        return struct.pack("<Q", len(text)) + text
