"""Pieces of work that a GPU may do at the same time, each on a stream of its own."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, TypeVar

import torch

T = TypeVar("T")
Piece = Callable[[int], Generator[None, None, T]]
"""Work on the lane of a number: issues a part of itself up to each `yield`, and returns a result.

What it allocates and uses is its own, or is not changed while the pieces run.
"""

_cuda: Any = torch.cuda  # its streams have no types


class Lanes:
    """One thread issues pieces on some streams, a part of each in turn.

    Lanes see what the caller's stream did before, which goes on when all lanes have finished.
    Memory that a piece takes belongs to its lane's stream: it is used again there alone, or after
    the caller's stream has let it go. A single lane is the caller's stream itself: piece after
    piece. Other devices than GPUs have no streams: there several lanes take turns on the CPU.

    Args:
        device: Device of the work.
        count: Most pieces that are in work at a time.
    """

    def __init__(self, device: torch.device, count: int = 1) -> None:
        self._device, self.count = device, count
        self._streams = _streams(device, count) if device.type == "cuda" and count > 1 else ()

    def run(self, pieces: Sequence[Piece[T]]) -> Iterator[T]:
        """Results in the order of the pieces, for use on the caller's stream.

        Pieces begin and end in groups of `count`. Whatever one raises ends all; what the lanes were
        given before that is finished before the caller's stream does anything else.
        """
        for start in range(0, len(pieces), self.count):
            self._fork()
            try:
                results = self._in_turns(pieces[start : start + self.count])
            finally:
                self._join()
            while results:
                result = results.pop(0)
                yield result
                self._fork()
                del result  # its memory is used again after what the caller did with it

    def _in_turns(self, pieces: Sequence[Piece[T]]) -> list[T]:
        running = [(number, piece(number)) for number, piece in enumerate(pieces)]
        results: dict[int, T] = {}
        while len(results) < len(running):
            for number, work in running:
                if number in results:
                    continue
                with self._on(number):
                    try:
                        next(work)
                    except StopIteration as ended:
                        results[number] = ended.value
        return [results[number] for number in range(len(pieces))]

    def _on(self, number: int) -> AbstractContextManager[Any]:
        return _cuda.stream(self._streams[number]) if self._streams else nullcontext()

    def _fork(self) -> None:
        """Lanes go on after what the caller's stream was given so far."""
        for stream in self._streams:
            stream.wait_stream(_cuda.current_stream(self._device))

    def _join(self) -> None:
        """The caller's stream goes on after what lanes were given so far."""
        for stream in self._streams:
            _cuda.current_stream(self._device).wait_stream(stream)


@cache
def _streams(device: torch.device, count: int) -> tuple[Any, ...]:
    """Streams, the same each time: torch keeps free memory for every stream by itself."""
    return tuple(_cuda.Stream(device) for _ in range(count))
