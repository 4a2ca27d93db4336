"""A trace of what torch does, for chrome://tracing and Perfetto."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity

from engine.core.errors import OutputUnwritable

_SILENCE = ("KINETO_LOG_LEVEL", "99")  # torch's profiler writes a line at every start else
_KEPT = ("schemaVersion", "displayTimeUnit", "deviceProperties", "traceEvents")


@contextmanager
def traced(path: Path) -> Iterator[None]:
    """Write a trace of everything inside as Chrome JSON; without names of folders or users.

    Raises:
        OutputUnwritable: The file cannot be written; said before anything is measured.
    """
    _written(path, "{}")
    os.environ.setdefault(*_SILENCE)
    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities, record_shapes=True) as profile:
        yield
    profile.export_chrome_trace(str(path))
    told = json.loads(path.read_text(encoding="utf-8"))
    _written(path, json.dumps({name: told[name] for name in _KEPT if name in told}))


def _written(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as err:
        raise OutputUnwritable(
            f"{path} cannot be written.", hint=err.strerror or str(err), path=path
        ) from err
