"""Pinned memory without a GPU: what is registered is released, and refusals do no harm."""

import logging
from typing import Self

import pytest
import torch

from engine.ops.transfer import pinned
from engine.ops.transfer.pinned import HostBytes


class Runtime:
    """What is asked of CUDA; `most` bytes can be pinned."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.held: dict[int, int] = {}
        self.waits = 0

    def cudart(self) -> Self:
        return self

    def synchronize(self, _: torch.device) -> None:
        self.waits += 1

    def cudaHostRegister(self, address: int, size: int, flags: int) -> int:
        assert flags == 0
        if sum(self.held.values()) + size > self.most:
            return 2
        self.held[address] = size
        return 0

    def cudaHostUnregister(self, address: int) -> int:
        assert self.waits
        del self.held[address]
        return 0


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Runtime:
    runtime = Runtime(1000)
    monkeypatch.setattr(pinned, "_cuda", runtime)
    monkeypatch.setattr(pinned, "_swallow", lambda _: None)
    return runtime


GPU = torch.device("cuda", 0)


def test_exactly_what_was_asked_for_is_pinned_until_released_or_forgotten(
    runtime: Runtime,
) -> None:
    host = HostBytes(600, GPU)
    assert host.pinned
    assert runtime.held == {host.flat.data_ptr(): 600}
    assert pinned.registered_bytes() == 600
    view = host.flat[:10].fill_(7)
    host.release()
    host.release()
    assert not host.pinned
    assert runtime.held == {}
    assert pinned.registered_bytes() == 0
    assert view.sum() == 70
    host = HostBytes(600, GPU)
    view = host.flat[:10]
    del host
    assert runtime.held == {}
    assert view.numel() == 10


def test_a_refusal_leaves_ordinary_memory(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    kept = HostBytes(600, GPU)
    with caplog.at_level(logging.WARNING):
        more = HostBytes(600, GPU)
    assert "could not be pinned" in caplog.text
    caplog.clear()
    assert kept.pinned
    assert not more.pinned
    assert more.flat.numel() == 600
    more.release()
    assert len(runtime.held) == 1


def test_nothing_is_pinned_for_a_processor_or_when_not_wanted(runtime: Runtime) -> None:
    for host in (HostBytes(10, torch.device("cpu")), HostBytes(10, GPU, pin=False)):
        assert not host.pinned
    assert not HostBytes(0, GPU).pinned
    assert runtime.held == {}
