"""What was measured on: figures without their machine are worth nothing."""

from __future__ import annotations

import importlib
import platform
from typing import Any

import torch

from engine.bench.timing.stopwatch import Timing
from engine.core.units import bytes_text
from engine.hardware import devices

Row = dict[str, Any]


def machine_row() -> Row:
    """Processor, card and libraries of this machine."""
    gpus = devices.gpus()
    return {
        "case": "machine",
        "processor": devices.cpu_name(),
        "threads": devices.cpu_threads(),
        "bfloat16": "yes" if devices.cpu_has_bf16() else "no",
        "memory": bytes_text(devices.ram()[0]),
        "card": ", ".join(card.name for card in gpus) or "none",
        "driver": ", ".join(dict.fromkeys(card.driver for card in gpus)) or "none",
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "av": _av_version(),
    }


def _av_version() -> str:
    """A machine that only computes may do without it."""
    try:
        return str(importlib.import_module("av").__version__)
    except ImportError:
        return "none"


def speed(timing: Timing, frames: int) -> Row:
    """A timing of `frames` frames as figures of one."""
    return {
        "frames_per_second": frames / timing.wall_s,
        "cpu_ms_a_frame": 1000 * timing.cpu_s / frames,
    }
