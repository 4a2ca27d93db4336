"""Which errors mean a lack of memory, the GPU's or the system's."""

from __future__ import annotations

import errno
import mmap

# In messages of torch's allocators, of CUDA's libraries and of systems without memory or threads.
_PHRASES = (
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


def is_memory_refusal(error: BaseException) -> bool:
    """Whether an error says that memory was refused, the GPU's or the system's.

    That passes, so it is never a verdict on a file, an encoder or a build of torch.
    """
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM or getattr(error, "winerror", None) in _WINDOWS
    text = str(error).lower() if isinstance(error, RuntimeError | ImportError) else ""
    return any(phrase in text for phrase in _PHRASES)


def memory_ran_out(error: BaseException) -> bool:
    """The same of libraries that report a lack of memory as damage: then there is still none."""
    return is_memory_refusal(error) or _is_short()


def _is_short() -> bool:
    """Whether the system refuses 64 MB, which are taken for an instant and not touched."""
    try:
        mmap.mmap(-1, 2**26).close()
    except (OSError, MemoryError):
        return True
    return False
