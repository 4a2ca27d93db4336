"""Two pieces of work that measure how fast this machine is now.

A figure in seconds is `least CPU seconds of its work / least CPU seconds of a calibration`, both of
several turns of one run, times what the calibration takes on the reference machine. A slower
machine then has the same figures, and so has one that others use meanwhile: what they disturb is
one turn or the other, and the least disturbed ones are compared.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import time
from collections.abc import Callable

# CPU seconds on the reference machine: AMD EPYC (Zen 4), one thread, Python 3.11, idle.
INTERPRETER_S = 0.021
CONVOLUTION_S = {"float32": 0.070, "bfloat16": 0.036}

_SOURCE = "\n".join(
    f"def f{i}(a, b={i}):\n    c = [a + x * b for x in range(3)]\n"
    f"    return {{'k': c, 'n': f'{{a}}-{{b}}'}}"
    for i in range(150)
)


def interpreter_seconds(turns: int = 5) -> float:
    """Least CPU seconds of what a start of a Python program consists of: code and classes."""
    was_enabled = gc.isenabled()
    gc.disable()  # its time depends on what else the process has made
    try:
        return min(cpu_seconds(_interpreter_work) for _ in range(turns))
    finally:
        if was_enabled:
            gc.enable()


def convolution(dtype: str = "float32") -> Callable[[], object]:
    """A 3x3x3 convolution, 128 to 128 channels, on 5 frames of 64x64, to be called in turns."""
    import torch

    layer = torch.nn.Conv3d(128, 128, 3, padding=1).to(getattr(torch, dtype))
    frames = torch.randn(1, 128, 5, 64, 64).to(getattr(torch, dtype))
    return lambda: layer(frames)


def cpu_seconds(work: Callable[[], object], *, at_least: float = 0.0) -> float:
    """CPU seconds of one call, of all threads of this process.

    Args:
        work: Function that is timed.
        at_least: Seconds; short work is called until they have passed, and their mean counts.
    """
    begin, calls, spent = time.process_time(), 0, 0.0
    while not calls or spent < at_least:
        work()
        calls += 1
        spent = time.process_time() - begin
    return spent / calls


def _interpreter_work() -> None:
    space: dict[str, Callable[[int], object]] = {}
    exec(compile(_SOURCE, "<calibration>", "exec"), space)
    for number in range(40):
        dataclasses.make_dataclass(
            f"Class{number}",
            [("a", int, 1), ("b", str, ""), ("c", float, 0.0)],
            frozen=True,
            slots=True,
        )
    json.loads(json.dumps([space["f3"](i) for i in range(2000)]))
