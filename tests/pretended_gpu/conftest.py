import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark all tests here: g++ compiles the device guard."""
    item.add_marker(pytest.mark.programs("g++"))
