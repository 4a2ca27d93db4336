"""The processor in place of a GPU: sources of kernels compiled with g++, once for all tests."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.ops.kernels import blocks, channel_norm, group_norm, heads, quantize, token_rows
from tests.helpers.kernels import stand_in
from tests.helpers.program import compiled_folder

FAMILIES = (blocks, channel_norm, group_norm, heads, quantize, token_rows)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests that compile a source with g++."""
    if "folder" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.programs("g++"))


@pytest.fixture
def folder() -> Path:
    """Folder of the compiled sources."""
    return compiled_folder()


@pytest.fixture
def _launched(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[None]:
    """The processor stands in for a GPU; work that is left to the PyTorch reference fails."""
    launched = stand_in(monkeypatch, folder)

    def find(family_find: Any, *work: Any) -> Any:
        found = family_find(*work)
        assert found is not None, "the reference did the work"
        launched.append("found")
        return found

    for family in FAMILIES:
        monkeypatch.setattr(family, "find", partial(find, family.find))
    yield
    assert "found" in launched


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """A device that passes for a GPU; kernels that a test compiles for it run on the processor."""
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (8, 6))
    for family in FAMILIES:
        kernels = family.KERNELS
        monkeypatch.setattr(kernels, "error", partial(_on_processor, kernels.error))
    yield torch.device("cuda", 0)
    for family in FAMILIES:
        family.KERNELS.cache_clear()


def _on_processor(error: Any, kernels: object, _: torch.device, *sizes: Any) -> float:
    return error(kernels, torch.device("cpu"), *sizes)
