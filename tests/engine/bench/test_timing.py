import threading
import time
from typing import Any

import pytest
import torch

from engine.bench import timing
from engine.bench.jobs import ThreadTimes
from engine.bench.timing import (
    Effort,
    MatmulRecorder,
    Ratio,
    Timing,
    Work,
    compare,
    cost_of,
    measure,
)
from tests.helpers.dispatch import DispatchMode


def busy(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(500))


def test_cpu_seconds_count_work_and_not_waiting() -> None:
    timing = measure(lambda: time.sleep(0.05), runs=3)
    assert timing.wall_s >= 0.05
    assert timing.seconds < 0.04
    assert 0.015 < measure(lambda: busy(0.02), runs=3).seconds < 0.2


def test_medians_of_runs_without_the_warm_ups(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    for runs, count in ((5, 6), (1, 1)):  # the first does not count, unless it is the only one
        calls.clear()
        cost_of(lambda: calls.append(1), 1, runs=runs)
        assert len(calls) == count
    seconds = iter([5.0, 1.0, 2.0])
    monkeypatch.setattr(timing, "_on_cpu", lambda work: Timing(seconds=next(seconds), wall_s=1.0))
    calls.clear()
    assert measure(lambda: calls.append(1), runs=3, warm_ups=2).seconds == 2.0
    assert len(calls) == 2


def test_the_clock_on_the_wall_of_a_gpu_begins_when_earlier_work_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A warm-up that the GPU has not finished is waited for, and not counted."""
    left = [0.1]

    def synchronize() -> None:
        time.sleep(left.pop() if left else 0)

    def gpu_seconds(work: Work, calls: int) -> float:
        synchronize()
        work()
        return 0.03

    monkeypatch.setattr(torch.cuda, "synchronize", synchronize)
    monkeypatch.setattr(timing, "gpu_seconds", gpu_seconds)
    assert measure(lambda: None, "cuda", runs=1).wall_s < 0.09


def test_both_run_in_each_round_and_alternate_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def measured(work: str, device: str, *, runs: int) -> Timing:
        calls.append(work.split()[0])
        seconds = float(work.split()[1])
        return Timing(seconds=seconds, wall_s=seconds)

    monkeypatch.setattr(timing, "measure", measured)
    found = compare("a 4", "b 2", "cpu", Effort.exactly(3))  # type: ignore[arg-type]  # a fake clock
    assert calls == ["a", "b", "b", "a", "a", "b"]
    assert (found.value, found.scatter, found.rounds) == (2.0, 0.0, 3)


def test_scatter_and_time_limit_the_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    def rounds(effort: Effort, *ratios: float) -> int:
        found = iter(ratios)
        monkeypatch.setattr(timing, "_round", lambda *_, is_first: next(found))
        return compare(print, print, "cpu", effort).rounds

    precise = Effort(least=2, most=5, scatter=0.01)
    assert rounds(precise, 1.0, 1.3, 0.8, 1.1, 1.0, 1.0) == 5
    assert rounds(precise, 1.0, 1.0, 1.0) == 2
    assert rounds(Effort(least=3, most=9, scatter=0.001, seconds=0.0), 1.0, 1.3, 0.8, 1.1) == 3
    assert Ratio.of([1.5]).scatter is None, "a single round has none"
    assert Ratio.of([2.0, 2.2, 1.8]).scatter == pytest.approx(1.25 * 0.2 / 3**0.5)


def test_threads_are_distinguished_by_name() -> None:
    def work() -> None:
        busy(0.3)
        time.sleep(0.5)  # still alive at the next sample, also on a busy machine

    with ThreadTimes() as times:
        thread = threading.Thread(target=work, name="read")
        thread.start()
        thread.join()
    assert 0.1 < times.seconds["read"] < 0.5


def test_a_ceiling_is_operations_by_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    half = Timing(seconds=0.5, wall_s=9.0)
    monkeypatch.setattr(timing, "measure", lambda *args, **options: half)
    assert timing.matrix_ceiling("cpu", torch.float32, quick=True) == 2 * 512**3 / 0.5


def test_calibration_takes_two_threads_and_restores_them(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, tuple[int, int]]] = []

    def measured(work: object, *, runs: int, warm_ups: int) -> Timing:
        seen.append((torch.get_num_threads(), (runs, warm_ups)))
        return Timing(seconds=0.7, wall_s=0.4)

    monkeypatch.setattr(timing, "measure", measured)
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        assert timing.calibration() == 0.7
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

    class Results(DispatchMode):
        def __torch_dispatch__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
            results.append(func(*args, **(kwargs or {})))
            return results[-1]

    with Results():
        replay.run()
    assert bool(results[0].isnan().all())
