"""Trials on a device: correctness and speed of an operation there.

`trial` runs a small case once in a process and compares its result with a reference; measurements
are kept in a `ResultFile`, by keys that name the GPU, its driver and the libraries.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec, cast

import torch

from engine.hardware import nvml
from engine.hardware.out_of_memory import is_out_of_memory

P = ParamSpec("P")
_log = logging.getLogger(__name__)

WORTH_IT = 0.97  # a variant replaces another one if it takes at most this share of its time
_CALLS = 4  # calls between two events of a GPU


def first_line(error: Exception) -> str:
    """Text of an error as a clause; for an error of torch's compiler, of the error it wraps."""
    text = str(getattr(error, "inner_exception", error)).strip().partition("\n")[0]
    return text.rstrip(".")[:160] or type(error).__name__


def trial(
    limit: float | Callable[..., float],
    *failures: type[Exception],
    words: Callable[..., str] = lambda error, *_: first_line(error),
    level: int = logging.INFO,
) -> Callable[[Callable[P, float]], Callable[P, str]]:
    """Decorator: turns a function that returns a numerical error into one that returns a text.

    The text says what is wrong, "" for nothing. The function runs once in a process for the same
    arguments. Running out of memory is no verdict: it is raised, and the next call tries again.

    Args:
        limit: Largest error that rounding explains, also by the arguments; NaN is wrong too.
        failures: Exceptions that mean that the operation does not work here.
        words: Returns the clause for users, from such an exception and the arguments.
        level: Log level of such exceptions.
    """

    def tried(error_of: Callable[P, float]) -> Callable[P, str]:
        @wraps(error_of)
        def fault(*given: P.args, **named: P.kwargs) -> str:
            try:
                with torch.inference_mode():
                    error = error_of(*given, **named)
            except failures as err:
                # TRAP: a variable for the inner error would keep all tensors of the trial, through
                # its traceback, until the next garbage collection.
                if is_out_of_memory(getattr(err, "inner_exception", err)):
                    raise getattr(err, "inner_exception", err) from None
                found = words(err, *given)
                _log.log(level, "%s of %s: %s", error_of.__qualname__, given, found)
                return found
            if not error <= (limit(*given) if callable(limit) else limit):
                _log.warning("%s of %s: wrong by %.1e", error_of.__qualname__, given, error)
                return f"it computes wrong results (error {error:.1e})"
            return ""

        return cast("Callable[P, str]", cache(fault))

    return tried


# --- speed


def seconds_of(work: Callable[[], object], device: torch.device) -> float:
    """Seconds of one call: on a GPU the mean of several calls, else wall-clock time."""
    if device.type == "cuda":
        return gpu_seconds(work, _CALLS)
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def gpu_seconds(work: Callable[[], object], calls: int) -> float:
    """Mean seconds of a call on the GPU, measured between two CUDA events.

    With several calls the GPU does not wait for the host, which launches the next one meanwhile.
    """
    torch.cuda.synchronize()
    cuda: Any = torch.cuda  # its events have no types
    begin, end = (cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(calls):
        work()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) / 1000 / calls


# --- keys of stored results


@cache
def machine(device: torch.device) -> str:
    """GPU, driver, torch and cuDNN: they decide speed and rounding of a device."""
    if device.type != "cuda":
        return f"torch {torch.__version__}"
    driver = nvml.text(nvml.query("nvmlSystemGetDriverVersion")) or "unknown"
    cudnn: Any = torch.backends.cudnn  # without types
    name = torch.cuda.get_device_name(device)
    return f"{name}, driver {driver}, torch {torch.__version__}, cuDNN {cudnn.version()}"
