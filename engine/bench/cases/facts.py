"""Case `facts`: GPU, driver and libraries, without names of users, folders or other programs."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib import metadata
from typing import Any

import torch

from engine import __version__
from engine.bench.cases.runs import device_of
from engine.bench.options import BenchOptions
from engine.bench.report.machine import Row, machine_row
from engine.core.units import bytes_text
from engine.hardware import devices, gpu_reading, nvml, shared_memory
from engine.hardware.devices import Gpu
from engine.ops.conv.trial import probe_convolution
from engine.ops.kernels import nvrtc

_PACKAGES = ("triton", "triton-windows", "flash-attn", "xformers", "sageattention", "sageattn3")


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
    installed = {one.metadata["Name"]: one.version for one in metadata.distributions()}
    return {
        "CUDA of torch": torch.version.cuda or "none",
        "cuDNN": str(cudnn.version() or "none"),
        "NVRTC": _nvrtc_version(),
        "allocator": os.environ.get("PYTORCH_ALLOC_CONF", "usual"),
        **{name: installed.get(name, "") for name in _PACKAGES},
    }


def _nvrtc_version() -> str:
    try:
        return "{}.{}".format(*nvrtc.find().version)
    except nvrtc.NvrtcMissing:
        return "none"


def _cuda_facts() -> dict[str, str]:
    """What torch reports of its GPU."""
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


def _driver_facts(gpu: Gpu) -> dict[str, str]:
    """What NVML and Windows report of the GPU that jobs run on."""
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
