from __future__ import annotations

import pytest

from engine.cli.console import code_page, utf8_console


class Console:
    """kernel32 with a console, or without one (0)."""

    def __init__(self, page: int) -> None:
        self.page = page
        self.set: list[int] = []

    def GetConsoleOutputCP(self) -> int:
        return self.page

    def SetConsoleOutputCP(self, page: int) -> int:
        self.set.append(page)
        self.page = page
        return 1


def test_the_console_gets_its_code_page_back_even_after_a_mistake() -> None:
    console = Console(936)
    with pytest.raises(KeyboardInterrupt), code_page(console, 65001):
        assert console.page == 65001
        raise KeyboardInterrupt
    assert console.page == 936


@pytest.mark.parametrize("page", [0, 65001])
def test_without_a_console_or_need_nothing_is_changed(page: int) -> None:
    console = Console(page)
    with code_page(console, 65001):
        pass
    assert console.set == []


def test_elsewhere_there_are_no_code_pages() -> None:
    with utf8_console():
        pass
