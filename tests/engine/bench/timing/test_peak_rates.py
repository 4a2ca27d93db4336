from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from engine.bench.timing import peak_rates
from engine.bench.timing.clock import Timing
from engine.bench.timing.peak_rates import MatmulRecorder


def test_a_ceiling_is_operations_by_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    timing = Timing(seconds=0.5, wall_s=9.0)
    monkeypatch.setattr(peak_rates, "measure", lambda *args, **options: timing)
    assert peak_rates.matrix_ceiling("cpu", torch.float32, quick=True) == 2 * 512**3 / 0.5


def test_calibration_takes_two_threads_and_restores_them(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, tuple[int, int]]] = []

    def measured(work: object, *, runs: int, warm_ups: int) -> Timing:
        seen.append((torch.get_num_threads(), (runs, warm_ups)))
        return Timing(seconds=0.7, wall_s=0.4)

    monkeypatch.setattr(peak_rates, "measure", measured)
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        assert peak_rates.calibration() == 0.7
        assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(before)
    assert seen == [(2, (15, 3))]


def test_a_replay_has_the_matrix_products_and_attention_only() -> None:
    weight, bias = torch.randn(6, 8), torch.randn(6)
    x = torch.randn(2, 3, 4, 8)
    with MatmulRecorder([weight]) as replay:
        y = torch.nn.functional.linear(x[0, 0], weight, bias).relu()
        torch.mm(y, torch.ones(6, 5))
        torch.nn.functional.scaled_dot_product_attention(x, x[:, :, :2], x[:, :, :2])
    products = 2 * 4 * 6 * 8 + 2 * 4 * 5 * 6
    assert replay.flops == products + 4 * (2 * 3) * 4 * 2 * 8
    assert replay.attention_calls == 1
    with MatmulRecorder([]) as again:
        replay.run()
    assert again.flops == replay.flops


def test_a_replay_reads_the_weights_themselves() -> None:
    weight = torch.zeros(6, 8)
    with MatmulRecorder([weight]) as replay:
        torch.nn.functional.linear(torch.randn(4, 8), weight)
    weight.fill_(float("nan"))
    results: list[torch.Tensor] = []

    class Results(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
            results.append(func(*args, **(kwargs or {})))
            return results[-1]

    with Results():
        replay.run()
    assert bool(results[0].isnan().all())
