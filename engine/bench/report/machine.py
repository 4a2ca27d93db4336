"""The machine that figures belong to."""

from __future__ import annotations

import importlib
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from engine.core import atomic_file
from engine.core.errors import OutputUnwritable
from engine.core.units import bytes_text
from engine.hardware import devices

Row = dict[str, Any]

MACHINE = "machine"
_FACTS = ("processor", "threads", "memory", "card", "driver", "system", "python", "torch")


def machine_row() -> Row:
    """Processor, GPU and libraries of this machine, without names of users or folders."""
    gpus = devices.gpus()
    return {
        "case": MACHINE,
        "processor": devices.cpu_name(),
        "threads": devices.cpu_threads(),
        "bfloat16": "yes" if devices.cpu_has_bf16() else "no",
        "memory": bytes_text(devices.ram()[0]),
        "card": ", ".join(gpu.name for gpu in gpus) or "none",
        "driver": ", ".join(dict.fromkeys(gpu.driver for gpu in gpus)) or "none",
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": _version("torch"),
        "av": _version("av"),
    }


def machine_of(rows: Iterable[Row]) -> dict[str, str]:
    """Facts about the machine out of the rows of a benchmark."""
    row = next((row for row in rows if row["case"] == MACHINE), {})
    return {name: str(row[name]) for name in _FACTS if name in row}


def _version(package: str) -> str:
    """Version of a package; "none" where it is not installed: computing alone needs no av."""
    try:
        return str(importlib.import_module(package).__version__)
    except ImportError:
        return "none"


def write_file(path: Path, text: str) -> None:
    """Write a text file in UTF-8; a partial one never has the name.

    Raises:
        OutputUnwritable: The system refuses.
    """
    try:
        atomic_file.write_text(path, text)
    except OSError as err:
        reason = err.strerror or str(err)
        raise OutputUnwritable("figures", path=path, reason=reason) from err
