"""A process of a machine that is lent."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.farm import lent
from engine.farm.endpoint import own_endpoint
from engine.farm.fit import Lent, LentDevice
from engine.farm.lent import work


@pytest.fixture
def asks_in_vain(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Its host does not answer until the process has ended; the statuses with which it ended."""
    ends: list[int] = []

    async def served(process: object, host: str) -> bool:
        while not ends:
            await asyncio.sleep(0.01)
        return False

    monkeypatch.setattr(lent._Process, "_served", served)
    monkeypatch.setattr(lent, "_ALONE_S", 0.1)
    monkeypatch.setattr(lent.os, "_exit", ends.append)
    monkeypatch.setattr(lent.signal, "signal", lambda number, handler: None)
    logger = logging.getLogger("distributed")
    before = logger.level
    yield ends
    logger.setLevel(before)


def test_without_its_parent_a_process_ends_though_it_waits_for_an_answer(
    tmp_path: Path, asks_in_vain: list[int]
) -> None:
    here, there = multiprocessing.Pipe()
    here.close()
    device = LentDevice(gpu="", title="CPU", free_bytes=1)
    work(
        Lent(hosts=("10.0.0.1:1",), endpoint=own_endpoint(), device=device, folder=tmp_path), there
    )
    assert asks_in_vain == [1]
