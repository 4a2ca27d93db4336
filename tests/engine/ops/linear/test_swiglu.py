from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine.ops.linear.swiglu import swiglu
from engine.ops.norm import cache_blocks

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def literal(gate: Tensor, value: Tensor) -> Tensor:
    gate, value = gate.double(), value.double()
    return gate / (1 + torch.exp(-gate)) * value


@pytest.fixture(params=[1, 700, 2**20])
def _cached_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_blocks, "_CACHED_BYTES", request.param)


@pytest.mark.usefixtures("_cached_bytes")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("into", ["new", "gate", "value", "other"])
def test_halves_of_a_joined_projection_are_rounded_once(dtype: torch.dtype, into: str) -> None:
    joined = (torch.randn(9, 26, dtype=torch.float64) * 4).to(dtype)
    gate, value = joined.chunk(2, dim=1)
    wanted = literal(gate, value)
    other = torch.zeros(9, 15, dtype=dtype)[:, 1:14]
    out = {"new": None, "gate": gate, "value": value, "other": other}[into]
    found = swiglu(gate, value, out)
    assert out is None or found is out
    assert found.dtype == dtype
    step = torch.finfo(dtype).eps
    torch.testing.assert_close(found.double(), wanted, rtol=2 * step, atol=2 * step)


def test_values_next_to_the_gate_stay() -> None:
    joined = torch.randn(5, 8)
    value = joined[:, 4:].clone()
    swiglu(joined[:, :4], joined[:, 4:], joined[:, :4])
    assert torch.equal(joined[:, 4:], value)


def test_a_large_gate_shuts_or_opens_without_overflow() -> None:
    gate = torch.tensor([[-200.0, 200.0]])
    assert swiglu(gate, torch.tensor([[3.0, 3.0]])).tolist() == [[0.0, 600.0]]


def test_nothing_gives_nothing_and_mistakes_are_named() -> None:
    assert swiglu(torch.zeros(0, 4), torch.zeros(0, 4)).shape == (0, 4)
    with pytest.raises(ValueError, match="the value"):
        swiglu(torch.zeros(2, 4), torch.zeros(2, 5))
