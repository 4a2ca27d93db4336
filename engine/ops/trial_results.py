"""Trials on a device: the time that some work takes there, and files that keep what they found."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch

from engine.core import atomic_file
from engine.core.paths import cache_folder
from engine.core.serialization import from_plain, read_json, set_aside
from engine.hardware import nvml

_CALLS = 4  # between two events of a GPU


def seconds_of(work: Callable[[], object], device: torch.device) -> float:
    """Seconds of one call: on a GPU the mean of some, else of the clock on the wall."""
    if device.type == "cuda":
        return gpu_seconds(work, _CALLS)
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def gpu_seconds(work: Callable[[], object], calls: int) -> float:
    """Mean seconds of the calls on the GPU, between two of its events.

    With several calls it does not wait for the host, which launches the next one meanwhile.
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


@cache
def machine(device: torch.device) -> str:
    """What decides how fast and how right a device computes: GPU, driver, torch, cuDNN."""
    if device.type != "cuda":
        return f"torch {torch.__version__}"
    driver = nvml.text(nvml.query("nvmlSystemGetDriverVersion")) or "unknown"
    cudnn: Any = torch.backends.cudnn  # without types
    name = torch.cuda.get_device_name(device)
    return f"{name}, driver {driver}, torch {torch.__version__}, cuDNN {cudnn.version()}"


class ResultFile:
    """Results by key, in a file of the cache folder: a lost or damaged one is made again.

    Args:
        name: Of the file.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def path(self) -> Path:
        """Where it is."""
        return cache_folder() / self._name

    def get(self, key: str) -> dict[str, Any]:
        """The entry of a key; {} where there is none."""
        entry = self._entries().get(key)
        return entry if isinstance(entry, dict) else {}

    def put(self, key: str, entry: dict[str, Any]) -> None:
        """Replace the file by one with this entry; what cannot be written is tried again."""
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            atomic_file.write_json(self.path, self._entries() | {key: entry}, indent=1)

    def _entries(self) -> dict[str, Any]:
        with set_aside(self.path):
            return from_plain(dict[str, Any], read_json(self.path))
        return {}
