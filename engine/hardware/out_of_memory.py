"""Telling that memory ran out from other mistakes, and giving back what a failed try holds."""

from __future__ import annotations

import errno
import gc
import traceback
from collections.abc import Iterator
from typing import Any

import torch

from engine.core.errors import EngineError, OutOfMemory

_cuda: Any = torch.cuda  # part of it has no types

# said by allocators of torch, by CUDA's libraries and by systems that have no memory or threads
_WORDS = (
    "not enough memory",
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "status_alloc_failed",
    "host_allocation_failed",
    "paging file is too small",
    "can't start new thread",
)
_WINDOWS = frozenset({8, 14, 1455})  # not enough memory, out of memory, the limit of commitments


def is_out_of_memory(error: BaseException) -> bool:
    """True for a refusal of the card's allocator, of the processor's or of the system.

    Errors of ours that were made of such a refusal count too: what could not be loaded, decoded or
    written for want of memory is not missing or damaged.
    """
    return any(map(_is_refusal, _causes(error)))


def is_of_main_memory(error: BaseException) -> bool:
    """True where main memory was refused, not that of a card."""
    return any(
        isinstance(cause, MemoryError | OSError) or "cpuallocator" in str(cause).lower()
        for cause in _causes(error)
    )


def let_go(error: BaseException) -> str:
    """Make an error forget the work that it broke off.

    Errors keep the frames they went through, and with them models, carries and pictures; threads
    that handed one on are even part of a ring that only the garbage collector opens. Frames that
    still run keep what they have. Call `give_back` behind the `except`, and log no `exc_info`:
    records keep it.

    Returns:
        Where it went wrong, as a text for the log.
    """
    text = "".join(traceback.format_exception(error))
    for each in _chain(error):
        traceback.clear_frames(each.__traceback__)
        each.__traceback__ = None  # a frame that was cleared still has the closure of its function
    return text


def give_back(*, libraries_too: bool = False) -> None:
    """Return what nobody holds any more, also to the driver of a card; some 50 ms.

    Args:
        libraries_too: Also what CUDA's libraries keep between calls: up to some 100 MB that they
            take again with the next job.
    """
    gc.collect()
    if not _cuda.is_initialized():
        return
    if libraries_too:
        _cuda.synchronize()
        torch._C._cuda_clearCublasWorkspaces()
    _cuda.empty_cache()


def pinned_by_torch() -> int:
    """Bytes of main memory that torch's own allocator has pinned for copies; 0 without a card."""
    if not _cuda.is_initialized():
        return 0
    return int(_cuda.host_memory_stats().get("allocated_bytes.current", 0))


def _is_refusal(error: BaseException) -> bool:
    if isinstance(error, torch.OutOfMemoryError | MemoryError | OutOfMemory):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM or getattr(error, "winerror", None) in _WINDOWS
    is_foreign = isinstance(error, RuntimeError)
    return is_foreign and any(words in str(error).lower() for words in _WORDS)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error, and what it was made of where it is one of ours."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ if isinstance(cause, EngineError) else None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and all that it keeps, each once."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            yield each
            waiting += [each.__cause__, each.__context__]
