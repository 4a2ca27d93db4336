import pytest
import torch
from torch import Tensor

from engine.ops.norm import cache_blocks
from engine.ops.norm.token_passes import swiglu

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def literal(gate: Tensor, value: Tensor) -> Tensor:
    gate, value = gate.double(), value.double()
    return gate / (1 + torch.exp(-gate)) * value


@pytest.mark.parametrize("cached_bytes", [1, 700, 2**20])
@pytest.mark.parametrize("dtype", DTYPES)
def test_halves_of_a_joined_projection_are_rounded_once(
    dtype: torch.dtype, cached_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_blocks, "_CACHED_BYTES", cached_bytes)
    step = 2 * torch.finfo(dtype).eps
    for into in ("new", "gate", "value", "other"):
        joined = (torch.randn(9, 26, dtype=torch.float64) * 4).to(dtype)
        gate, value = joined.chunk(2, dim=1)
        wanted, before = literal(gate, value), value.clone()
        other = torch.zeros(9, 15, dtype=dtype)[:, 1:14]
        out = {"new": None, "gate": gate, "value": value, "other": other}[into]
        found = swiglu(gate, value, out)
        assert out is None or found is out
        assert found.dtype == dtype
        torch.testing.assert_close(found.double(), wanted, rtol=step, atol=step)
        assert into == "value" or torch.equal(value, before)


def test_extreme_and_empty_gates() -> None:
    gate = torch.tensor([[-200.0, 200.0]])
    assert swiglu(gate, torch.tensor([[3.0, 3.0]])).tolist() == [[0.0, 600.0]]
    assert swiglu(torch.zeros(0, 4), torch.zeros(0, 4)).shape == (0, 4)
    with pytest.raises(ValueError, match="the value"):
        swiglu(torch.zeros(2, 4), torch.zeros(2, 5))
