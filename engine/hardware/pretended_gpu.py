"""GPUs that plans are made for where they are none of this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence

from engine.core.errors import SettingsError
from engine.core.units import parse_memory
from engine.hardware import devices
from engine.hardware.gpu_table import GpuSpec, named

GPU_VARIABLE = "UPREEL_PRETEND_GPU"
VRAM_VARIABLE = "UPREEL_PRETEND_VRAM"


def pretended(*names: str, memory: str = "") -> tuple[GpuSpec, ...]:
    """The GPUs that texts request; () where all are empty.

    Args:
        names: Names in the table; none with a memory means this computer's own GPUs.
        memory: Size that each is given, as "16GiB"; "" for what it has.

    Raises:
        SettingsError: There is no such GPU, or no such size.
    """
    size = parse_memory(memory) if memory else 0
    wanted = tuple(filter(None, map(str.strip, names)))
    if wanted or not size:
        return tuple(named(name, size) for name in wanted)
    own = devices.in_use()
    if own is None:
        raise SettingsError("no-gpu-to-pretend")
    return (named(own.name, size),)


def from_environment() -> tuple[GpuSpec, ...]:
    """The GPUs that the environment requests, parted by commas; () where it requests none.

    Raises:
        SettingsError: It requests an impossible one; the hint names the variables.
    """
    names = os.environ.get(GPU_VARIABLE, "").split(",")
    try:
        return pretended(*names, memory=os.environ.get(VRAM_VARIABLE, ""))
    except SettingsError as err:
        problem, variables = err.as_message, (GPU_VARIABLE, VRAM_VARIABLE)
        raise SettingsError(
            "in-environment", problem=problem, advice=problem.hint, variables=variables
        ) from err


def fastest(specs: Sequence[GpuSpec]) -> GpuSpec | None:
    """The one of pretended GPUs that jobs run on where none is chosen."""
    gpu = devices.chosen(devices.AUTO, devices.as_gpus(specs))
    return None if gpu is None else specs[gpu.number]
