"""Cases of the device itself: `facts`, `kernel-errors`, `memory-pressure` and `gpu-tests`.

`facts` states GPU, driver and libraries, without names of users, folders or other programs;
`kernel-errors` whether each family of CUDA kernels works. `memory-pressure` fills the GPU beyond
its memory on purpose: where the system refuses (Linux), torch reports it; Windows moves memory to
main memory without a word, and the spill guard has to notice. It was seen on Linux only.
`gpu-tests` runs the tests marked `gpu`, where the source code and pytest are installed.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine import __version__
from engine.bench.report import Row, machine_row
from engine.bench.run import BenchOptions
from engine.bench.workload import device_of, require_gpu
from engine.core.errors import FeatureMissing
from engine.core.messages import message
from engine.core.units import bytes_text
from engine.hardware import devices, gpu_reading, nvml, shared_memory, torch_memory
from engine.hardware.out_of_memory import free_memory
from engine.hardware.process import NO_CONSOLE
from engine.hardware.spill_guard import Spilled, SpillGuard
from engine.ops.conv.trial import probe_convolution
from engine.ops.kernels import build, nvrtc
from engine.ops.kernels.families import FAMILIES

_PACKAGES = ("triton", "triton-windows", "flash-attn", "xformers", "sageattention", "sageattn3")
_BLOCK_BYTES = 128 * 2**20
_BEYOND_BYTES = 2**30  # that are taken in addition to what is free
_LEFT_RAM_BYTES = 3 * 2**30  # of main memory, so that the system itself does not stall
_SETTLE_S = 0.5  # Windows' counters are late
_ROOT = Path(__file__).parents[3]
_RESULT = re.compile(r"^tests/(\S+?)::(.+?) (PASSED|FAILED|ERROR|SKIPPED)\b")
_COMMAND = (sys.executable, "-m", "pytest", "-v", "-m", "gpu", "-p", "no:cacheprovider", "tests")


def fact_rows(options: BenchOptions) -> Iterator[Row]:
    """A row for each fact: name and value; what a driver or system does not report is left out."""
    facts = {name: str(value) for name, value in machine_row().items() if name != "case"}
    facts |= {"program": __version__, "system release": platform.platform(), **_torch_facts()}
    if device_of(options) == "cuda":
        facts |= _cuda_facts()
    gpu = devices.in_use()
    if gpu is not None:
        facts |= _driver_facts(gpu)
    for name, value in facts.items():
        if value:
            yield {"fact": name, "value": value}


def _torch_facts() -> dict[str, str]:
    cudnn: Any = torch.backends.cudnn  # without types
    try:
        compiler = "{}.{}".format(*nvrtc.find().version)
    except nvrtc.NvrtcMissing:
        compiler = "none"
    installed = {one.metadata["Name"]: one.version for one in metadata.distributions()}
    return {
        "CUDA of torch": torch.version.cuda or "none",
        "cuDNN": str(cudnn.version() or "none"),
        "NVRTC": compiler,
        "allocator": os.environ.get("PYTORCH_ALLOC_CONF", "usual"),
        **{name: installed.get(name, "") for name in _PACKAGES},
    }


def _cuda_facts() -> dict[str, str]:
    """Facts that torch reports about its GPU."""
    free, total = torch.cuda.mem_get_info()
    return {
        "GPU of torch": torch.cuda.get_device_name(),
        "compute capability": "{}.{}".format(*torch.cuda.get_device_capability()),
        "multiprocessors": str(
            torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
        ),
        "GPU memory": f"{bytes_text(total)}, {bytes_text(free)} free",
        "convolutions over time, float16": probe_convolution("cuda", torch.float16).text,
    }


def _driver_facts(gpu: devices.Gpu) -> dict[str, str]:
    """Facts that NVML and Windows report about the GPU that jobs run on."""
    handle = nvml.handles()[gpu.index]
    bar = nvml.query("nvmlDeviceGetBAR1MemoryInfo", handle)
    power = nvml.query("nvmlDeviceGetEnforcedPowerLimit", handle)
    model = nvml.query("nvmlDeviceGetCurrentDriverModel", handle)
    return {
        "GPU link": gpu_reading.link_text(gpu_reading.link_of(gpu)),
        "BAR1": bytes_text(bar.bar1Total) if bar else "",
        "power limit": f"{power / 1000:.0f} W" if power else "",
        "driver model": "" if model is None else ("WDDM" if model == 0 else "TCC or MCDM"),
        "GPU memory in use": bytes_text(gpu.total_bytes - gpu.free_bytes),
        "spilled memory": "not counted" if shared_memory.own_bytes() is None else "counted",
    }


def kernel_error_rows(options: BenchOptions) -> Iterator[Row]:
    """A row for each family of CUDA kernels and dtype: whether it works, and why not.

    `found` is what the family's own trial logs: its error, or what failed. `seconds` are of the
    clock, with compiling unless the kernels are in the cache.
    """
    device = torch.device(require_gpu(options))
    trial, lines = logging.getLogger(build.__name__), _LogLines()
    before = trial.level
    trial.addHandler(lines)
    trial.setLevel(logging.INFO)
    try:
        for family in FAMILIES:
            for dtype in family.dtypes:
                begin = time.perf_counter()
                works = "yes" if family.working(device, dtype) else "NO"
                row: Row = {"kernels": family.name}
                row |= {"dtype": str(dtype).removeprefix("torch."), "works": works}
                row["seconds"] = time.perf_counter() - begin
                yield row | {"found": "; ".join(lines.taken())}
    finally:
        trial.removeHandler(lines)
        trial.setLevel(before)


class _LogLines(logging.Handler):
    """Keeps messages until they are taken."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a message."""
        self._kept.append(record.getMessage())

    def taken(self) -> list[str]:
        """Messages since the last call."""
        found, self._kept = self._kept, []
        return found


def pressure_rows(options: BenchOptions) -> Iterator[Row]:
    """A row for torch's limit, then one for memory beyond the GPU's."""
    require_gpu(options)
    free_memory()
    free, total = torch.cuda.mem_get_info()
    limit = max(_BLOCK_BYTES, free // 4)
    with torch_memory.within(torch_memory.gpu_bytes() + limit):
        found = _filled(limit + 2 * _BLOCK_BYTES)
    yield {"pressure": "torch's limit", "limit_mib": limit / 2**20, **found}
    row: Row = {"pressure": "beyond the GPU", "limit_mib": free / 2**20}
    needed, available = _BEYOND_BYTES + _LEFT_RAM_BYTES, devices.ram()[1]
    if available < needed:
        texts = {"needed": bytes_text(needed), "free": bytes_text(available)}
        yield row | {"note": message("bench.too-little-ram", **texts)}
        return
    with torch_memory.within(total):
        yield row | _filled(free + _BEYOND_BYTES)


def _filled(nbytes: int) -> Row:
    """Outcome of taking and writing blocks of the GPU; all are given back."""
    is_counted = shared_memory.own_bytes() is not None
    guard = SpillGuard(shared_memory.own_bytes, torch_memory.pinned_bytes)
    row: Row = {"refused": "no", "spill_guard": "silent" if is_counted else "no counter"}
    held: list[Tensor] = []
    try:
        while len(held) * _BLOCK_BYTES < nbytes:
            held.append(torch.empty(_BLOCK_BYTES, dtype=torch.uint8, device="cuda").fill_(1))
            torch.cuda.synchronize()
            guard.check("")
        time.sleep(_SETTLE_S)
        guard.check("")
    except torch.OutOfMemoryError:
        row["refused"] = "yes"
    except Spilled as spilled:
        row |= {"spill_guard": "triggered", "spilled_mib": spilled.spilled_bytes / 2**20}
    row["taken_mib"] = len(held) * _BLOCK_BYTES / 2**20
    held.clear()
    free_memory()
    return row


def gpu_test_rows(options: BenchOptions) -> Iterator[Row]:
    """A row for each test as it ends."""
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
