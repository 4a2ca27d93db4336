"""Loss of a GPU: it fell off the bus, its driver was restarted, or a kernel ended its context.

CUDA then answers every call of this process with the same error, so it is remembered and no more
work is given to a GPU; a process that starts later may use it again.
"""

from __future__ import annotations

import threading

from engine.core.errors import GpuLost

# In messages of CUDA's driver and runtime, which torch and our kernels pass on.
_PHRASES = (
    "unspecified launch failure",
    "illegal memory access was encountered",
    "illegal instruction was encountered",
    "device-side assert triggered",
    "launch timed out and was terminated",
    "hardware stack error",
    "uncorrectable ecc error",
    "uncorrectable nvlink error",
    "context is destroyed",
    "driver shutting down",
    "device lost",
    "gpu is lost",
    "no cuda-capable device",
    "no cuda gpus are available",
    "cuda-capable device(s) is/are busy or unavailable",
    "cuda_error_no_device",
    "cuda error: misaligned address",
    "cuda error: invalid program counter",
    "cuda error: initialization error",
    "cuda error: unknown error",
)
_lost = threading.Event()


def noticed(error: BaseException | None) -> GpuLost | None:
    """The error for users where one says that the GPU is lost, which is remembered; else None."""
    text = str(error) if isinstance(error, RuntimeError) else ""
    if not any(phrase in text.lower() for phrase in _PHRASES):
        return None
    _lost.set()
    return GpuLost("running", reason=text.splitlines()[0])


def is_remembered() -> bool:
    """Whether a GPU was lost in this process."""
    return _lost.is_set()


def check() -> None:
    """Refuse work for a GPU where one was lost before.

    Raises:
        GpuLost: It was.
    """
    if _lost.is_set():
        raise GpuLost("before")
