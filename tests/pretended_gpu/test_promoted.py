"""Products with promoted sums on the pretended GPU: which way is taken, and that it is right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.core.errors import ChoiceMissing
from engine.ops.choices import Choices, following
from engine.ops.linear import promoted
from tests.pretended_gpu.gpu import PretendedGpu
from tests.pretended_gpu.machine import pretended_gpu

pytestmark = pytest.mark.pretended_gpu

KEY = "product on cuda: torch.float16, 64 to 72, promoted every 128"


@pytest.fixture
def gpu() -> Iterator[PretendedGpu]:
    with pretended_gpu(capability=(7, 5)) as found:
        yield found


def multiplied(count: int = 1030, share: float = 1.0) -> tuple[bool, Tensor, Tensor]:
    """Whether the kernel did it, its result, and the truth."""
    random = torch.Generator().manual_seed(2)
    x = torch.randn(count, 64, generator=random).half()
    weight, bias = (torch.randn(*shape, generator=random).half() for shape in ((72, 64), (72,)))
    out = torch.zeros(count, 72, dtype=torch.float16).cuda()
    is_done = promoted.multiply(x.cuda(), weight.cuda(), bias.cuda(), out, share=share)
    truth = (x.double() @ weight.double().t() + bias.double()) * share
    return is_done, out.cpu().double(), truth


def seconds(ours: float, usual: float) -> Any:
    """Stands in for measured times: those of the kernel, then of torch."""
    times = [ours] * 3 + [usual] * 3
    return lambda *_: times.pop(0)


@pytest.mark.parametrize(("ours", "is_kernel"), [(1.0, True), (2.0, False)])
def test_the_faster_way_is_taken_and_remembered(
    ours: float, is_kernel: bool, gpu: PretendedGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(promoted, "seconds_of", seconds(ours, 1.9))
    for _ in range(2):
        is_done, found, truth = multiplied()
        assert is_done == is_kernel
        if is_done:
            torch.testing.assert_close(found, truth, rtol=2e-3, atol=2e-2)
        promoted._preferred.cache_clear()  # as in another process: the file is read
    assert len(promoted.RESULTS._entries()) == 1
    assert not gpu.record.problems


def test_results_are_scaled_with_their_bias(
    gpu: PretendedGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(promoted, "_is_chosen", lambda *_: True)
    is_done, found, truth = multiplied(share=2.0**-6)
    assert is_done
    torch.testing.assert_close(found, truth, rtol=2e-3, atol=2e-2 / 64)


def test_a_few_tokens_are_left_to_torch(gpu: PretendedGpu) -> None:
    assert not multiplied(58)[0]


def test_a_wrong_kernel_is_never_taken(gpu: PretendedGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    real = promoted._convolve

    def wrong(kernel: Any, weight: Tensor, *rest: Any) -> None:
        real(kernel, weight * 1.1, *rest)

    monkeypatch.setattr(promoted, "_convolve", wrong)
    monkeypatch.setattr(promoted, "seconds_of", seconds(0.1, 1.0))
    assert not multiplied()[0]
    with following(Choices({KEY: "kernel"})), pytest.raises(ChoiceMissing, match="kernel"):
        multiplied()


def test_the_choice_of_the_job_counts(gpu: PretendedGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    for way, ours in (("torch", 0.1), ("kernel", 2.0)):
        monkeypatch.setattr(promoted, "seconds_of", seconds(ours, 1.0))
        with following(Choices({KEY: way})):
            assert multiplied()[0] == (way == "kernel")
    chosen = Choices()
    monkeypatch.setattr(promoted, "seconds_of", seconds(0.1, 1.0))
    with following(chosen):
        assert multiplied()[0]
    assert chosen.known[KEY] == "kernel"
