"""Another card in the place of this machine's own: for plans before buying, tests and pictures.

`UPREEL_PRETEND_GPU` and `UPREEL_PRETEND_VRAM` ask for one, as the options of `plan` and of the
window do.
"""

from __future__ import annotations

import os

from engine.core.errors import SettingsError
from engine.core.units import parse_memory
from engine.hardware import devices, gpu_table
from engine.hardware.gpu_table import Card

GPU_VARIABLE = "UPREEL_PRETEND_GPU"
VRAM_VARIABLE = "UPREEL_PRETEND_VRAM"


def pretended(name: str, memory: str = "") -> Card | None:
    """The card that two texts ask for; None where both are empty.

    Args:
        name: Of a card of the table; "" with a memory means this machine's own.
        memory: What it is to have, as "16GiB"; "" for what it has.

    Raises:
        SettingsError: There is no such card, or no such size.
    """
    size = parse_memory(memory) if memory else 0
    if name or not size:
        return gpu_table.pretended(name, size) if name else None
    own = next(iter(devices.gpus()), None)
    if own is None:
        raise SettingsError(
            "There is no NVIDIA card here whose memory could be another.",
            hint='Name one: --pretend-gpu "NVIDIA GeForce RTX 5070 Ti".',
        )
    return gpu_table.pretended(own.name, size)


def from_environment() -> Card | None:
    """The card that the environment asks for; None where it asks for none.

    Raises:
        SettingsError: It asks for one that cannot be; the hint names the variable.
    """
    try:
        return pretended(os.environ.get(GPU_VARIABLE, ""), os.environ.get(VRAM_VARIABLE, ""))
    except SettingsError as err:
        hint = f"{err.hint} It stands in {GPU_VARIABLE} or {VRAM_VARIABLE}.".strip()
        raise SettingsError(err.message, hint=hint, **err.params) from err
