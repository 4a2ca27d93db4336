import pytest
import torch
from torch import Tensor, nn

from engine.ops.linear.eight_bit import EightBitLinear, Int8Product
from engine.ops.linear.quantized_linear import widened


@pytest.fixture
def layer() -> EightBitLinear:
    layer = EightBitLinear(24, 10, "F8_E4M3", bias=False)
    layer.weight.data = torch.randn(10, 24).to(torch.float8_e4m3fn)
    return layer


@pytest.fixture
def made(layer: EightBitLinear, monkeypatch: pytest.MonkeyPatch) -> list[torch.dtype]:
    """Dtypes that a weight was widened to."""
    made: list[torch.dtype] = []
    widen = EightBitLinear.dense_weight

    def counted(self: EightBitLinear, dtype: torch.dtype) -> Tensor:
        made.append(dtype)
        return widen(self, dtype)

    monkeypatch.setattr(EightBitLinear, "dense_weight", counted)
    return made


def test_a_weight_is_dequantised_once_inside_and_dropped_after(
    layer: EightBitLinear, made: list[torch.dtype]
) -> None:
    x = torch.randn(3, 24)
    wanted = layer(x)
    assert torch.equal(layer(x), wanted)
    assert len(made) == 2  # at every use
    made.clear()
    with widened(nn.ModuleList([layer, Int8Product(8, 8, bias=False)])):
        assert torch.equal(layer(x), wanted)
        assert torch.equal(layer(x), wanted)
        assert made == [torch.float32]
        assert layer(x.double()).dtype == torch.float64
        assert made == [torch.float32, torch.float64]
        assert set(layer.state_dict()) == {"weight"}
        assert not list(layer.named_buffers())
    layer.weight.data = torch.zeros(10, 24).to(torch.float8_e4m3fn)
    assert torch.equal(layer(x), torch.zeros(3, 10))


def test_a_weight_is_let_go_after_an_error(layer: EightBitLinear, made: list[torch.dtype]) -> None:
    with pytest.raises(RuntimeError, match="stop"), widened(layer):
        layer(torch.randn(3, 24))
        raise RuntimeError("stop")
    layer(torch.randn(3, 24))
    assert len(made) == 2


def test_some_can_be_left_out(layer: EightBitLinear, made: list[torch.dtype]) -> None:
    block = nn.ModuleDict({"picture": layer, "text": EightBitLinear(24, 10, "F8_E4M3", bias=False)})
    with widened(block, without="text"):
        for _ in range(2):
            for one in block.values():
                one(torch.zeros(1, 24))
    assert len(made) == 1 + 2
