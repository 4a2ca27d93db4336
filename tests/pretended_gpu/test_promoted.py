"""Products with promoted sums on the pretended GPU: which way is taken, and that it is right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.core.errors import ChoiceMissing
from engine.models.seedvr2.dit.load import LoadOptions, load_dit
from engine.ops.choices import Choices, following
from engine.ops.linear import promoted
from tests.helpers.fast_dit import gap
from tests.helpers.model_files import write_fp8
from tests.helpers.seedvr2 import random_dit, random_inputs, tiny_dit_config, write_dit
from tests.pretended_gpu.gpu import PretendedGpu
from tests.pretended_gpu.machine import pretended_gpu

pytestmark = pytest.mark.pretended_gpu

KEY = "product on cuda: torch.float16, 64 to 72, promoted every 32"


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


@pytest.mark.parametrize("stored", ["fp16", "fp8"])
def test_the_transformer_multiplies_so(
    stored: str, gpu: PretendedGpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With weights of either kind, resident and streamed: as close to the truth as without."""
    config = tiny_dit_config("7b", dim=64, heads=2, head_dim=32, mlp_hidden=128)
    path, plain = tmp_path / "dit", random_dit(config, dtype=torch.float32)
    if stored == "fp8":
        write_fp8(path, dict(plain.state_dict()))
    else:
        write_dit(path, config, dtype=torch.float16)
    latent, text = random_inputs(config, (2, 12, 16), dtype=torch.float16)
    monkeypatch.setattr(promoted, "_LEAST_ROWS", 1)
    found = []
    for is_chosen, blocks in ((False, None), (True, None), (True, 1)):
        monkeypatch.setattr(promoted, "_is_chosen", lambda *_, is_chosen=is_chosen: is_chosen)
        options = LoadOptions(attention="math", pin_bytes=0, blocks_on_device=blocks)
        dit = load_dit(path, device="cuda", dtype=torch.float16, options=options)
        before = gpu.record.launches["kernel convolve"]
        found.append(dit(latent.cuda(), text.cuda(), 1000.0).cpu())
        assert (gpu.record.launches["kernel convolve"] > before + 10) == is_chosen
        dit.close()
    assert gap(found[1], found[0]) < 1e-2
    assert torch.equal(found[1], found[2])
    assert not gpu.record.problems
