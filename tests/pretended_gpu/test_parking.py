"""Carries that wait in main memory: in one pinned buffer for each key, as far as that goes."""

from __future__ import annotations

import pytest
import torch

from engine.ops.conv.causal_conv import Carry
from engine.ops.transfer.parking import Parking
from engine.ops.transfer.pinned import HostCopy
from tests.pretended_gpu.gpu import PretendedGpu
from tests.pretended_gpu.machine import pretended_gpu

pytestmark = pytest.mark.pretended_gpu


def frames(value: float) -> torch.Tensor:
    """Two frames, channels last."""
    found = torch.full((1, 3, 2, 4, 5), float(value), device="cuda")
    return found.to(memory_format=torch.channels_last_3d)


def carry_of(*values: float) -> Carry:
    carry = Carry()
    for key, value in enumerate(values):
        carry.keep(key, frames(value))
    return carry


def kinds(gpu: PretendedGpu) -> set[str]:
    return {kind for kind, _ in gpu.record.copies}


def test_a_carry_comes_back_as_it_was_and_its_buffer_serves_the_next_one() -> None:
    with pretended_gpu() as gpu:
        parking = Parking(10**6)
        first = carry_of(1, 2).parked(parking, "tile")
        assert kinds(gpu) == {"D2H pinned async"}
        back = first.moved("cuda")
        assert kinds(gpu) == {"D2H pinned async", "H2D pinned async"}
        assert [float(back.tail(key).max()) for key in (0, 1)] == [1, 2]
        assert back.tail(0).stride() == frames(1).stride()
        second = carry_of(3, 4).parked(parking, "tile")
        assert second.tail(0).data_ptr() == first.tail(0).data_ptr()
        assert len(gpu.registered) == 1
        waits = [what for what, _ in gpu.record.waits.elements()]
        assert waits.count("Stream.synchronize") == 2  # once for each carry
        parking.release()
        assert not gpu.registered
        assert float(second.tail(1).max()) == 4
    assert not gpu.record.problems


def test_only_so_many_bytes_are_pinned() -> None:
    with pretended_gpu() as gpu:
        parking = Parking(700)
        for key in ("a", "b"):  # 480 bytes each
            carry_of(1).parked(parking, key)
        assert kinds(gpu) == {"D2H pinned async", "D2H pageable blocking"}
        larger = carry_of(1, 1).parked(parking, "a")  # its buffer grows beyond the limit
        assert float(larger.tail(1).min()) == 1
        assert not gpu.registered


def test_a_small_picture_comes_while_the_gpu_goes_on() -> None:
    with pretended_gpu() as gpu:
        x = torch.full((4, 5, 3), 7, dtype=torch.uint8, device="cuda")
        copy = HostCopy(x)
        x.zero_()
        assert not copy.is_here
        assert not gpu.record.waits
        assert copy.values().unique().tolist() == [7]
        assert copy.is_here
    assert not gpu.record.problems
