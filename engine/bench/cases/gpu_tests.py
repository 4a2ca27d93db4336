"""Case `gpu-tests`: the tests marked `gpu`, where the source code and pytest are here."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from engine.bench.cases.runs import require_gpu
from engine.bench.options import BenchOptions
from engine.bench.report.machine import Row
from engine.core.errors import FeatureMissing
from engine.hardware.process import NO_CONSOLE

_ROOT = Path(__file__).parents[3]
_RESULT = re.compile(r"^tests/(\S+?)::(.+?) (PASSED|FAILED|ERROR|SKIPPED)\b")
_COMMAND = (sys.executable, "-m", "pytest", "-v", "-m", "gpu", "-p", "no:cacheprovider", "tests")


def gpu_test_rows(options: BenchOptions) -> Iterator[Row]:
    """A row for each test as it ends.

    Raises:
        NoUsableGpu: torch has none.
        FeatureMissing: The folder `tests` or pytest is not here, or pytest ran no test.
    """
    require_gpu(options)
    if not (_ROOT / "tests").is_dir() or importlib.util.find_spec("pytest") is None:
        raise FeatureMissing("gpu-tests")
    process = subprocess.Popen(  # noqa: S603 - this interpreter with constant words
        _COMMAND,
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
        errors="replace",
        env=os.environ | {"COLUMNS": "300", "PYTHONIOENCODING": "utf-8"},
        creationflags=NO_CONSOLE,
    )
    count, last = 0, ""
    with process:
        try:
            for line in process.stdout or ():
                last = line.strip() or last
                if found := _RESULT.match(line):
                    count += 1
                    yield dict(zip(("file", "test", "result"), found.groups(), strict=True))
        finally:
            process.kill()
    if not count:
        raise FeatureMissing("gpu-tests-ended", reason=last)
