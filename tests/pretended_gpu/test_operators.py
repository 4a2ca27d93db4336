"""Results of operators on tensors that have shapes alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.pretended_gpu.machine import pretended_gpu

pytestmark = pytest.mark.pretended_gpu

OPERATORS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "new": lambda x, y: x + y,
    "laid out otherwise": lambda x, y: x.t() + y.t(),
    "of another type": lambda x, y: x.half() + y.half(),
    "in place": lambda x, y: x.add_(y),
    "into another": lambda x, y: torch.mul(x, 2, out=y),
    "a view": lambda x, _: x[1:, 2:].unsqueeze(0),
    "of another size": lambda x, _: x.sum(0, keepdim=True),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_they_are_those_of_torch_each_time(name: str) -> None:
    def once(device: str, size: int) -> Tensor:
        x, y = (torch.empty(size, size, device=device) for _ in range(2))
        found = OPERATORS[name](x, y)
        assert (found is x, found is y) == (name == "in place", name == "into another")
        return found

    with pretended_gpu(has_values=False) as gpu:
        for size in (6, 6, 4):
            found, wanted = once("cuda", size), once("meta", size)
            assert (found.shape, found.stride()) == (wanted.shape, wanted.stride())
            assert (found.dtype, found.storage_offset()) == (wanted.dtype, wanted.storage_offset())
        first, second = once("cuda", 6), once("cuda", 6)
        assert first.data_ptr() != second.data_ptr()
    assert not gpu.record.problems
