"""Buffers of a GPU without a GPU: two lazy queues, each as late or as early as it may be."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from engine.ops.transfer import weight_buffers, weight_streaming
from engine.ops.transfer.weight_buffers import GpuBuffers
from engine.ops.transfer.weight_streaming import WeightStream

WIDTH = 6


class Event:
    """Done when the queue that recorded it has come so far."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.done = False

    def synchronize(self) -> None:
        while not self.done:
            self.queue.step()


class Queue:
    """A stream: its work is done as late as possible, or (eager) as early as possible."""

    def __init__(self, *, eager: bool) -> None:
        self.eager = eager
        self.todo: deque[Event | Callable[[], object]] = deque()  # wait for it, or do it

    def add(self, what: Event | Callable[[], object]) -> None:
        self.todo.append(what)
        if self.eager:
            self.run()

    do = wait_event = add

    def wait_stream(self, _: Queue) -> None:
        pass

    def record_event(self) -> Event:
        event = Event(self)
        self.do(lambda: setattr(event, "done", True))
        return event

    def run(self) -> None:
        """Go on until something else must happen first."""
        while self.todo and not (isinstance(self.todo[0], Event) and not self.todo[0].done):
            self.step()

    def step(self) -> None:
        """Do the next thing, whatever it takes elsewhere."""
        what = self.todo[0]
        if isinstance(what, Event):
            what.synchronize()
        else:
            what()
        self.todo.popleft()


class Deferred(TorchDispatchMode):
    """Copies inside are left to a queue."""

    def __init__(self, queue: Queue) -> None:
        super().__init__()
        self.queue = queue

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch.ops.aten.copy_.default:
            return func(*args, **(kwargs or {}))
        self.queue.do(lambda: args[0].copy_(args[1]))
        return args[0]


class FakeCuda:
    """What weight_buffers asks torch.cuda for."""

    def __init__(self, *, early_copies: bool) -> None:
        self.copies = Queue(eager=early_copies)
        self.computing = Queue(eager=False)
        self.Stream = lambda device: self.copies
        self.current_stream = lambda device: self.computing
        self.stream = Deferred

    def synchronize(self, _: object = None) -> None:
        for queue in (self.computing, self.copies):
            while queue.todo:
                queue.step()
                if self.copies.eager:
                    self.copies.run()


@pytest.fixture(params=["early copies", "late copies"])
def cuda(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    cuda = FakeCuda(early_copies=request.param == "early copies")
    monkeypatch.setattr(weight_buffers, "_cuda", cuda)
    for name in ("current_stream", "stream", "synchronize"):
        monkeypatch.setattr(torch.cuda, name, getattr(cuda, name))
    monkeypatch.setattr(weight_streaming, "DirectBuffers", GpuBuffers)
    return cuda


def chain(count: int) -> nn.ModuleList:
    torch.manual_seed(4)
    linears = [nn.Linear(WIDTH, WIDTH + index % 2, bias=False) for index in range(count)]
    return nn.ModuleList(linears).requires_grad_(False)


def issue(cuda: FakeCuda, stream: WeightStream, blocks: nn.ModuleList, found: list[Tensor]) -> None:
    """One forward whose work is done later; what it reads is what lies there then."""
    for index, block in enumerate(blocks):
        with stream.block(index):
            weight = block.weight
            cuda.computing.do(lambda weight=weight: found.append(weight.clone()))


def test_work_finds_its_weights_however_late_it_runs(cuda: FakeCuda) -> None:
    wanted = [block.weight.clone() for block in chain(5)]
    for buffers, pinned, resident in product((1, 2, 3), (0, 2, 5), (0, 2)):
        blocks, found = chain(5), list[Tensor]()
        options = {"resident": resident, "buffers": buffers, "pin_bytes": pinned * 256}
        stream = WeightStream(blocks, device="cpu", **options)
        for _ in range(3):
            issue(cuda, stream, blocks, found)
        cuda.synchronize()
        for weight, good in zip(found, 3 * wanted, strict=True):
            assert torch.equal(weight, good), options
        stream.close()
        for block, weight in zip(blocks, wanted, strict=True):
            assert torch.equal(block.weight, weight), options


@pytest.mark.parametrize("name", ["wait", "release"])  # of work for its copy, and the reverse
def test_the_queues_would_show_a_missing_event(
    name: str, cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each event is needed in one of the two orders."""
    monkeypatch.setattr(GpuBuffers, name, lambda *_: None)
    wanted = [block.weight.clone() for block in chain(5)]
    blocks, found = chain(5), list[Tensor]()
    stream = WeightStream(blocks, device="cpu", resident=0, pin_bytes=10**6)
    for slot in stream._buffers.slots:
        slot.flat.zero_()
    issue(cuda, stream, blocks, found)
    assert found == []  # the host issues a whole forward before any work is done
    assert len(cuda.computing.todo) > 5
    cuda.synchronize()
    right = all(torch.equal(weight, good) for weight, good in zip(found, wanted, strict=True))
    assert right == (cuda.copies.eager == (name == "wait"))
