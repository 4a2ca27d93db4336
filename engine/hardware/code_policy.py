r"""State of Smart App Control: the policy of Windows 11 that blocks unsigned libraries.

PyTorch publishes its libraries for Windows unsigned, so where the policy is on, Windows may refuse
to load them (WinError 4551), and lets the user make no exception. The state is a value below
HKLM\SYSTEM\CurrentControlSet\Control\CI\Policy.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from engine.core.messages import message
from engine.core.registry import machine_value
from engine.protocol.delivery import AppControl
from engine.protocol.report import DoctorLine, State

_KEY = r"SYSTEM\CurrentControlSet\Control\CI\Policy"
_VALUE = "VerifiedAndReputablePolicyState"
_STATES: dict[object, AppControl] = {0: "off", 1: "on", 2: "evaluation"}


def smart_app_control() -> AppControl:
    """State of Smart App Control now; "" on other systems, and where it is unknown."""
    return _STATES.get(machine_value(_KEY, _VALUE), "")


def lines() -> Iterator[DoctorLine]:
    """Line of the self-test, on Windows."""
    if sys.platform != "win32":
        return
    found = smart_app_control()
    state: State = "warning" if found == "on" else "ok"
    text = message(f"doctor.smart-app-control.{found or 'unknown'}")
    yield DoctorLine(name="Smart App Control", state=state, message=text)
