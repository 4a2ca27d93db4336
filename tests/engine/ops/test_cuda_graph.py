from collections.abc import Callable
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor

from engine.ops.cuda_graph import GraphedCalls, record_on_gpu


class Recorder:
    """Does as CUDA graphs do: the same work again on the same memory."""

    def __init__(self) -> None:
        self.recorded = 0

    def __call__(self, work: Callable[[], Tensor]) -> tuple[Tensor, Callable[[], None]]:
        self.recorded += 1
        result = work()
        return result, lambda: result.copy_(work())


def test_results_are_those_of_the_work_and_stay() -> None:
    recorder, held = Recorder(), [torch.zeros(1)]
    calls = GraphedCalls(lambda x: x * 2 + 1, lambda: list(held), recorder)
    first = calls(torch.tensor([1.0, 2.0]))
    second = calls(torch.tensor([5.0, 6.0]))
    assert first.tolist() == [3, 5]
    assert second.tolist() == [11, 13]
    assert recorder.recorded == 1
    (recording,) = calls._recordings.values()
    assert recording.held == held  # memory of others is kept alive


def test_the_shape_that_was_not_used_for_longest_goes() -> None:
    recorder = Recorder()
    calls = GraphedCalls(lambda x: x + 1, lambda: None, recorder, most=2)
    for size in (1, 2, 1, 3, 1, 2):
        assert calls(torch.zeros(size)).tolist() == [1] * size
    assert recorder.recorded == 4  # 1, 2, 3 in the place of 2, and 2 again
    calls.forget()
    calls(torch.zeros(1))
    assert recorder.recorded == 5


def test_what_cannot_be_recorded_is_computed_each_time(caplog: pytest.LogCaptureFixture) -> None:
    fail = Mock(side_effect=RuntimeError("operation not permitted when stream is capturing"))
    calls = GraphedCalls(lambda x: x + 1, lambda: None, fail)
    for _ in range(2):
        assert calls(torch.zeros(1)).tolist() == [1]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    greedy = Mock(side_effect=torch.OutOfMemoryError)
    with pytest.raises(torch.OutOfMemoryError):
        GraphedCalls(lambda x: x, lambda: None, greedy)(torch.zeros(1))


@pytest.mark.gpu
def test_a_gpu_replays() -> None:
    weight = torch.randn(64, 64, device="cuda")
    calls = GraphedCalls(lambda x: torch.relu(x @ weight), lambda: None, record_on_gpu)
    for _ in range(3):
        x = torch.randn(8, 64, device="cuda")
        torch.testing.assert_close(calls(x), torch.relu(x @ weight))
