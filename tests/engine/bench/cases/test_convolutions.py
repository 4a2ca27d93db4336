import sys
import types

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.bench.cases import convolutions
from engine.bench.cases.convolutions import LAYERS, convolution_rows, product_rate
from engine.bench.run import BenchOptions
from engine.bench.timing import Timing
from engine.ops.kernels.conv_tiles import Taps

GPU = torch.device("cuda", 0)


def test_on_a_processor_torch_computes_each_layer_with_its_error() -> None:
    rows = list(convolution_rows(BenchOptions(device="cpu", quick=True, runs=1)))
    assert [row["layer"] for row in rows] == list(LAYERS)[:2]
    for row in rows:
        assert row["sums"] == "torch"
        assert row["error"] < 1e-5
        assert row["tflops"] > 0
        assert "of_ceiling" not in row


@pytest.mark.gpu
def test_our_kernel_is_compared_with_cudnn_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"3x3x3": Taps(32, 32, 3, 3, 3), "shortcut": Taps(32, 16, 1, 1, 1)}
    monkeypatch.setattr(convolutions, "LAYERS", small)
    monkeypatch.setattr(convolutions, "_VALUES", {"cuda": 2**16})
    monkeypatch.setattr(convolutions, "_ROUNDS", 10)
    rows = list(convolution_rows(BenchOptions(device="cuda", quick=True)))
    assert [row["layer"] for row in rows[:2]] == ["products alone"] * 2
    sums = ["torch", *convolutions._SUMS]
    assert [row["sums"] for row in rows[2:]] == sums * 2
    for row in rows[2:]:
        assert row["error"] < 0.02
        assert row["of_ceiling"] > 0


@pytest.mark.gpu
def test_comfy_kitchen_is_compared_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fp16_conv3d(
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        residual: Tensor | None = None,
        stride: tuple[int, int, int] = (1, 1, 1),
    ) -> Tensor:
        assert x.is_contiguous(memory_format=torch.channels_last_3d)
        assert bias is residual is None
        return F.conv3d(x, weight, None, stride)

    package = types.SimpleNamespace(fp16_conv3d=fp16_conv3d)
    monkeypatch.setitem(sys.modules, "comfy_kitchen", package)
    layers = {"3x3x3": Taps(32, 32, 3, 3, 3), "downsampler": Taps(32, 32, 3, 3, 3, 2)}
    monkeypatch.setattr(convolutions, "LAYERS", layers)
    monkeypatch.setattr(convolutions, "_VALUES", {"cuda": 2**16})
    monkeypatch.setattr(convolutions, "_ROUNDS", 10)
    rows = [
        row
        for row in convolution_rows(BenchOptions(device="cuda", quick=True))
        if row["sums"] == "comfy-kitchen"
    ]
    assert [row["layer"] for row in rows] == list(layers)
    for row in rows:
        assert row["error"] < 0.02
        assert row["of_ceiling"] > 0


@pytest.mark.real_gpu("nothing has a speed")
@pytest.mark.gpu
def test_wide_layers_reach_most_of_what_matrix_units_can_do() -> None:
    rows = [row for row in convolution_rows(BenchOptions(device="cuda")) if "of_ceiling" in row]
    promoted = [row for row in rows if row["sums"].startswith("promoted")]
    assert {row["layer"] for row in promoted} == LAYERS.keys()
    wide = [row for row in promoted if row["layer"].endswith("3x3x3")]
    assert not [row for row in wide if row["of_ceiling"] < 0.75]


@pytest.mark.gpu
def test_the_ceiling_is_that_of_the_time_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        convolutions, "measure", lambda work, *_, **__: (work(), Timing(seconds=0.5, wall_s=1))[1]
    )
    blocks = convolutions.build.processors(GPU) * 4
    wanted = blocks * 8 * 2000 * 8 * 4096 / 0.5
    assert product_rate(GPU, half=True) == pytest.approx(wanted)
