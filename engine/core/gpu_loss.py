"""Loss of a GPU: it fell off the bus, its driver was restarted, or a kernel ended its context.

CUDA then answers every call of this process with the same error, so it is remembered and no more
work is given to a GPU; a process that starts later may use it again. The loss is also kept for the
GPU and its driver: later plans for both are careful.
"""

from __future__ import annotations

import threading

from engine.core.errors import GpuLost
from engine.core.serialization import ResultFile

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
_KEPT = ResultFile("gpu-losses.json")


def noticed(error: BaseException | None) -> GpuLost | None:
    """The error for users where one says that the GPU is lost, which is remembered; else None."""
    text = str(error) if isinstance(error, RuntimeError) else ""
    if not any(phrase in text.lower() for phrase in _PHRASES):
        return None
    _lost.set()
    return GpuLost("running", reason=text.splitlines()[0])


def keep(gpu: str, driver: str, reason: str) -> None:
    """Count a loss of a GPU for later plans.

    Args:
        gpu: Name that the driver reports.
        driver: Its version: another one begins without losses.
        reason: Answer of CUDA.
    """
    _KEPT.put(_key(gpu, driver), {"losses": losses(gpu, driver) + 1, "reason": reason})


def losses(gpu: str, driver: str) -> int:
    """Number of times that a GPU was lost with a driver."""
    found = _KEPT.get(_key(gpu, driver)).get("losses")
    return found if isinstance(found, int) and found > 0 else 0


def last_reason(gpu: str, driver: str) -> str:
    """Answer of CUDA when a GPU was lost last with a driver; "" if it never was."""
    return str(_KEPT.get(_key(gpu, driver)).get("reason", ""))


def _key(gpu: str, driver: str) -> str:
    return f"{gpu}, driver {driver or 'unknown'}"


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
