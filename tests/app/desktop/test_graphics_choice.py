"""The choice of a graphics chip, on a registry of our own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from app.desktop.windows_rules import KEY, prefer_fast_gpu

PROGRAM = "C:\\Users\\me\\AppData\\Local\\Programs\\Upreel\\upreel.exe"


class Registry:
    """As winreg, with one key."""

    HKEY_CURRENT_USER, REG_SZ, KEY_READ, KEY_SET_VALUE = 1, 1, 0x20019, 2

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    @contextlib.contextmanager
    def CreateKeyEx(self, root: int, key: str, _reserved: int, access: int) -> Iterator[str]:
        assert (root, access) == (1, 0x2001B)
        yield key

    def QueryValueEx(self, key: str, name: str) -> tuple[str, int]:
        if name not in self.values:
            raise FileNotFoundError(2, name)
        return self.values[name], 1

    def SetValueEx(self, key: str, name: str, _reserved: int, kind: int, value: str) -> None:
        assert (key, kind) == (KEY, 1)
        self.values[name] = value


def test_the_fast_chip_is_asked_for_once() -> None:
    registry = Registry()
    assert prefer_fast_gpu(registry, PROGRAM)
    assert registry.values == {PROGRAM: "GpuPreference=2;"}
    assert not prefer_fast_gpu(registry, PROGRAM)


def test_what_the_user_has_chosen_stays() -> None:
    registry = Registry()
    registry.values[PROGRAM] = "GpuPreference=1;"
    assert not prefer_fast_gpu(registry, PROGRAM)
    assert registry.values == {PROGRAM: "GpuPreference=1;"}
