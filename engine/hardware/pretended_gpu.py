"""The GPU that a plan is made for where it is not one of this machine."""

from __future__ import annotations

import os

from engine.core.errors import SettingsError
from engine.core.units import parse_memory
from engine.hardware import devices
from engine.hardware.gpu_table import GpuSpec, named

GPU_VARIABLE = "UPREEL_PRETEND_GPU"
VRAM_VARIABLE = "UPREEL_PRETEND_VRAM"


def pretended(name: str, memory: str = "") -> GpuSpec | None:
    """The GPU that two texts request; None where both are empty.

    Args:
        name: As in the table; "" with a memory means this machine's own.
        memory: Size it is given, as "16GiB"; "" for what it has.

    Raises:
        SettingsError: There is no such GPU, or no such size.
    """
    size = parse_memory(memory) if memory else 0
    if name or not size:
        return named(name, size) if name else None
    own = next(iter(devices.gpus()), None)
    if own is None:
        raise SettingsError("no-gpu-to-pretend")
    return named(own.name, size)


def from_environment() -> GpuSpec | None:
    """The GPU that the environment requests; None where it requests none.

    Raises:
        SettingsError: It requests an impossible one; the hint names the variables.
    """
    try:
        return pretended(os.environ.get(GPU_VARIABLE, ""), os.environ.get(VRAM_VARIABLE, ""))
    except SettingsError as err:
        problem, variables = err.as_message, (GPU_VARIABLE, VRAM_VARIABLE)
        raise SettingsError(
            "in-environment", problem=problem, advice=problem.hint, variables=variables
        ) from err
