"""Recognises errors for want of memory, and frees what a failed attempt keeps."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Iterator
from typing import Any

import torch

from engine.core import gpu_loss
from engine.core.errors import EngineError, OutOfMemory, is_memory_refusal

_cuda: Any = torch.cuda  # part of it has no types


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the GPU's allocator, the CPU's or the system refused memory.

    An EngineError with such a cause counts too: what could not be loaded, decoded or written for
    want of memory is not missing or damaged.
    """
    return any(
        isinstance(cause, torch.OutOfMemoryError | OutOfMemory) or is_memory_refusal(cause)
        for cause in _causes(error)
    )


def is_of_main_memory(error: BaseException) -> bool:
    """Whether main memory was refused, not that of a GPU."""
    return any(
        isinstance(cause, MemoryError | OSError) or "cpuallocator" in str(cause).lower()
        for cause in _causes(error)
    )


def is_of_driver(error: BaseException) -> bool:
    """Whether CUDA's driver refused memory by itself, not torch's allocator for the GPU.

    It does so where main memory cannot be pinned, also late, as the result of another call.
    """
    return any(
        isinstance(cause, RuntimeError)
        and not isinstance(cause, torch.OutOfMemoryError)
        and "cuda error" in str(cause).lower()
        and is_memory_refusal(cause)
        for cause in _causes(error)
    )


def forget_frames(error: BaseException) -> str:
    """Drop the stack frames that an error keeps, and with them models, carries and pictures.

    An error that threads passed on is even part of a reference cycle that only the garbage
    collector frees. Running frames are kept. Call `free_memory` after the `except` block, and log
    no `exc_info`: log records keep it.

    Returns:
        The traceback, as a text for the log.
    """
    text = "".join(traceback.format_exception(error))
    for each in _chain(error):
        traceback.clear_frames(each.__traceback__)
        each.__traceback__ = None  # a frame that was cleared still has the closure of its function
    return text


def free_memory() -> None:
    """Free unreferenced memory, also on the GPU; some 50 ms.

    Workspaces that CUDA's libraries keep between calls count: some 100 MB, which they allocate
    again when they are used. A GPU that was lost is left alone.
    """
    gc.collect()
    if not _cuda.is_initialized() or gpu_loss.is_remembered():
        return
    _cuda.synchronize()
    torch._C._cuda_clearCublasWorkspaces()
    _cuda.empty_cache()


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error, and the causes of EngineErrors."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ if isinstance(cause, EngineError) else None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error with all causes and contexts, each once."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            yield each
            waiting += [each.__cause__, each.__context__]
