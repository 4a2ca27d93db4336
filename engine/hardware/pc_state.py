r"""Facts about this PC that decide how a GPU behaves, as lines of the self-test.

Windows ends work of a GPU that takes longer than its time limit (TDR, two seconds unless the
registry says otherwise), and may leave the order of that work to the GPU (hardware-accelerated GPU
scheduling, HAGS); both are values in HKLM\SYSTEM\CurrentControlSet\Control\GraphicsDrivers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import psutil

from engine.core.messages import message
from engine.core.registry import machine_value
from engine.hardware import devices, nvml
from engine.protocol.report import DoctorLine, State

_DRIVERS = r"SYSTEM\CurrentControlSet\Control\GraphicsDrivers"
_USUAL_LIMIT_S = 2
_SCHEDULING = {2: "on", 1: "off"}


def lines() -> Iterator[DoctorLine]:
    """Time limit and scheduling of Windows, screens on GPUs, and the source of power."""
    if sys.platform == "win32":
        yield _time_limit()
        mode = _SCHEDULING.get(machine_value(_DRIVERS, "HwSchMode"), "unknown")
        yield _line("GPU scheduling", f"gpu-scheduling.{mode}")
    yield from _screens()
    yield _power()


def _time_limit() -> DoctorLine:
    """Longest work of a GPU that Windows allows; level 0 turns the limit off."""
    level, delay = (machine_value(_DRIVERS, name) for name in ("TdrLevel", "TdrDelay"))
    seconds = delay if isinstance(delay, int) else _USUAL_LIMIT_S
    if level == 0:
        return _line("GPU time limit", "gpu-time-limit.off")
    state: State = "warning" if seconds < _USUAL_LIMIT_S else "ok"
    case = "usual" if level in (None, 3) and seconds == _USUAL_LIMIT_S else "changed"
    level = "3" if level is None else str(level)
    return _line("GPU time limit", f"gpu-time-limit.{case}", state, seconds=seconds, level=level)


def _screens() -> Iterator[DoctorLine]:
    """Whether a screen is on each GPU: its desktop takes memory, and it stalls with the GPU."""
    handles = nvml.handles()
    for gpu in devices.gpus():
        active = nvml.query("nvmlDeviceGetDisplayActive", handles[gpu.index])
        if active is not None:
            yield _line("screen", f"screen.{'on' if active else 'none'}", name=gpu.name)


def _power() -> DoctorLine:
    battery = psutil.sensors_battery()
    if battery is None:
        return _line("power", "power.mains")
    if battery.power_plugged is False:
        return _line("power", "power.battery", "warning", share=f"{battery.percent:.0f} %")
    return _line("power", "power.plugged")


def _line(name: str, case: str, state: State = "ok", /, **params: object) -> DoctorLine:
    return DoctorLine(name=name, state=state, message=message(f"doctor.{case}", **params))
