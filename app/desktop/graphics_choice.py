"""Windows' choice of a graphics chip for each program, on machines with two of them."""

from __future__ import annotations

from typing import Any

KEY = r"Software\Microsoft\DirectX\UserGpuPreferences"
_FAST_CHIP = "GpuPreference=2;"  # "High performance" in Windows' settings


def prefer_card(registry: Any, program: str) -> bool:
    """Ask for the fast chip of a laptop, unless the user has chosen for this program already.

    Some laptops let a program see the card only then. The setup's uninstaller takes it back.

    Args:
        registry: The module `winreg`.
        program: Path of the program file.

    Returns:
        Whether something was written; it counts from the next start on.

    Raises:
        OSError: The registry cannot be written.
    """
    access = registry.KEY_READ | registry.KEY_SET_VALUE
    with registry.CreateKeyEx(registry.HKEY_CURRENT_USER, KEY, 0, access) as key:
        try:
            registry.QueryValueEx(key, program)
        except FileNotFoundError:
            registry.SetValueEx(key, program, 0, registry.REG_SZ, _FAST_CHIP)
            return True
    return False
