"""Loaded first by the process that runs jobs on a GPU: a pretended one, which may be lost.

The variable LOSSES names a folder. The first file in it has a number of launches; after as many in
this process the GPU is lost, and the file is gone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from engine.hardware import devices
from engine.hardware.gpu_table import named
from tests.pretended_gpu.gpu import PretendedGpu
from tests.pretended_gpu.machine import pretended_gpu

NAME, LOSSES, HERE = "RTX 4060", "UPREEL_TEST_LOSSES", "tests.pretended_gpu.process"


def _losing(file: Path) -> Callable[[PretendedGpu], None]:
    check, at = PretendedGpu.check_lost, int(file.read_text("ascii"))

    def check_lost(gpu: PretendedGpu) -> None:
        if gpu.launches >= at and not gpu.lost:
            file.unlink()
            gpu.lost = "unspecified launch failure"
        check(gpu)

    return check_lost


if __name__ == HERE and os.environ.get(LOSSES):
    _stack = ExitStack()
    _stack.enter_context(pretended_gpu())
    for _file in sorted(Path(os.environ[LOSSES]).iterdir())[:1]:
        PretendedGpu.check_lost = _losing(_file)  # type: ignore[method-assign]
    _here = devices.as_gpus([named(NAME)])
    devices.gpus = lambda: _here
