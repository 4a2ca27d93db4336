"""Trials of a muxer: what it refuses is known before a packet of the result is written."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from contextlib import suppress
from fractions import Fraction
from typing import Any

import av
from av.container import OutputContainer
from av.error import FFmpegError
from av.format import Flags

Refusal = (FFmpegError, ValueError)


class Nowhere(io.RawIOBase):
    """A file to write that keeps nothing but its position."""

    def __init__(self) -> None:
        self._at = self._end = 0

    def writable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def write(self, data: Any) -> int:
        """Count the bytes."""
        self._at += len(data)
        self._end = max(self._end, self._at)
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move; from the end too."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._end}[whence]
        return self._at

    def tell(self) -> int:
        """The position."""
        return self._at


class TrialMux:
    """A file of one stream that goes nowhere.

    A muxer with one stream writes each packet at once, so a refusal is of that packet and of no
    other. Memory: the index of such a file, about 100 bytes a packet.

    Args:
        add: Adds the stream to a file.
        muxer: FFmpeg's name.
        options: Options of the muxer.

    Raises:
        FFmpegError, ValueError: The muxer refuses the stream.
    """

    def __init__(
        self, add: Callable[[OutputContainer], Any], muxer: str, options: Mapping[str, str]
    ) -> None:
        self._output = av.open(Nowhere(), "w", format=muxer, container_options=dict(options))
        try:
            self._stream = add(self._output)
            self._output.start_encoding()
        except Refusal:
            self.close()
            raise

    @property
    def time_base(self) -> Fraction:
        """Time base that the muxer chose."""
        return Fraction(self._stream.time_base)

    @property
    def least_step(self) -> int:
        """Least rise of decoding times, in the time base."""
        return 0 if Flags.ts_nonstrict in Flags(self._output.format.flags) else 1

    def takes(self, packet: Any) -> bool:
        """Whether the muxer writes a packet, with times in its time base, after those before it."""
        packet.stream = self._stream
        try:
            self._output.mux_one(packet)
        except av.error.MemoryError:
            raise
        except Refusal:
            return False
        return True

    def finish(self) -> None:
        """Complete the file.

        Raises:
            FFmpegError, ValueError: The muxer refuses the stream as a whole.
        """
        self._output.close()

    def close(self) -> None:
        """End the trial, whatever came of it."""
        with suppress(*Refusal):
            self._output.close()
