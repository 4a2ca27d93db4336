"""Loaded by a worker process before anything else: it has pretended GPUs.

What they were used for is written down after each span, in a file of the folder that the
environment names.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import ExitStack
from pathlib import Path

from distributed import Worker

from engine.hardware import devices
from engine.hardware.gpu_table import named
from engine.pipeline.segments import Span
from engine.workers.reports import Made
from engine.workers.worker import SpanWorker
from tests.pretended_gpu.machine import pretended_gpu

NAMES = ("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 3060")
FOLDER, HERE = "UPREEL_TEST_FOLDER", "UPREEL_TEST_GPUS"  # HERE: how many of them
LOST = "UPREEL_TEST_LOST"  # a file that is made when the second one is lost, once
_WAIT_S = 60.0  # most, for the other process
_stack = ExitStack()


def dask_setup(worker: Worker) -> None:
    """Called by Dask, by its name, in the main thread of the process."""
    here = devices.as_gpus([named(name) for name in NAMES])[: int(os.environ[HERE])]
    devices.gpus = lambda: here
    gpu, make = _stack.enter_context(pretended_gpu()), SpanWorker.make
    folder = Path(os.environ[FOLDER])
    file = folder / f"{os.getpid()}.json"
    file.write_text('{"used": [], "problems": []}', "utf-8")

    def written_down(plugin: SpanWorker, span: Span) -> Made:
        end = time.monotonic() + _WAIT_S
        while len(list(folder.iterdir())) < len(NAMES) and time.monotonic() < end:
            time.sleep(0.01)  # or the first process might make all
        if is_lost(worker):
            gpu.lost = "unspecified launch failure"
        made = make(plugin, span)
        problems = [str(one) for one in gpu.record.problems]
        file.write_text(json.dumps({"used": sorted(gpu.used), "problems": problems}), "utf-8")
        return made

    SpanWorker.make = written_down


def is_lost(worker: Worker) -> bool:
    """Whether the GPU of this process is to be lost now."""
    if int(worker.name) != 1 or LOST not in os.environ or Path(os.environ[LOST]).exists():
        return False
    Path(os.environ[LOST]).touch()
    return True
