"""Values of Windows' registry."""

from __future__ import annotations

import sys
from typing import Any


def machine_value(key: str, name: str) -> Any:
    """Value in HKEY_LOCAL_MACHINE; None where it is missing or not readable, and off Windows.

    Args:
        key: Path of the key below it.
        name: Name of the value.
    """
    if sys.platform != "win32":
        return None
    import winreg

    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, key) as found:
            return winreg.QueryValueEx(found, name)[0]
    except OSError:
        return None
