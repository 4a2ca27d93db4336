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

from engine.hardware import devices
from engine.hardware.gpu_table import named
from engine.pipeline.segments import Span
from engine.workers.worker import Made, SpanWorker
from tests.pretended_gpu.machine import pretended_gpu

NAMES = ("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 3060")
FOLDER, HERE = "UPREEL_TEST_FOLDER", "UPREEL_TEST_GPUS"  # HERE: how many of them
_WAIT_S = 60.0  # most, for the other process
_stack = ExitStack()


def dask_setup(worker: object) -> None:
    """Called by Dask, by its name, in the main thread of the process."""
    del worker
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
        made = make(plugin, span)
        problems = [str(one) for one in gpu.record.problems]
        file.write_text(json.dumps({"used": sorted(gpu.used), "problems": problems}), "utf-8")
        return made

    SpanWorker.make = written_down
