"""What is tried on a GPU before it is used, and kept in a file."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from typing import Any
from unittest.mock import Mock, patch

import pytest
import torch
from torch import Tensor

from engine.core import paths
from engine.core.errors import FeatureMissing
from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.seedvr2.vae.fast import FastVae
from engine.models.seedvr2.vae.plain import SeedVr2Vae
from engine.ops import compiler
from engine.ops.attention import attention
from engine.ops.attention.backends import BACKENDS
from engine.ops.conv import trial as convolutions
from engine.ops.conv.temporal_conv import TemporalConv
from engine.ops.linear import formats
from engine.ops.trials import machine
from tests.helpers.attention_packages import PACKAGES, install
from tests.helpers.extended import rest_extended
from tests.pretended_gpu.machine import NAME, pretended_gpu

pytestmark = pytest.mark.pretended_gpu

GPU = torch.device("cuda", 0)
HERE = f"{NAME}, driver unknown, torch {torch.__version__}, cuDNN 91500"


@pytest.mark.parametrize(
    ("dtype", "most", "kinds"),
    rest_extended(
        [(torch.float16, 0.16, 20), (torch.float32, 0.32, 15)], (torch.float16, 0.16, 20)
    ),
)
def test_every_kind_of_layer_is_tried_once_for_a_gpu(
    dtype: torch.dtype, most: float, kinds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At published sizes: few kinds, little memory and work; the next film measures none."""
    monkeypatch.setattr(convolutions, "_error", lambda *_: 1e-5)  # there are no values
    with torch.device("meta"):
        weights = SeedVr2Vae(VaeConfig()).state_dict()
    with pretended_gpu(has_values=False, processors=60) as gpu:
        probe, peaks = convolutions._probe, list[float]()

        def probed(*given: Any) -> Any:
            before = gpu.allocator.allocated
            gpu.allocator.forget_peak()
            choice = probe(*given)
            peaks.append((gpu.allocator.peak - before) / 1e9)
            return choice

        def film() -> FastVae:
            convolutions._choose.cache_clear()  # as another process
            return FastVae(VaeConfig(), weights, device="cuda", dtype=dtype)

        monkeypatch.setattr(convolutions, "_probe", probed)
        film()
        assert len(peaks) == kinds  # of our kernel those over one frame, too
        assert max(peaks) < most
        assert gpu.record.operations < 50e12
        known = json.loads(convolutions.RESULTS.path.read_text())
        ours = ", our kernel with sums promoted every 128" if dtype == torch.float16 else ""
        here = f"{HERE}, {str(dtype).removeprefix('torch.')}{ours}"
        assert f"{here}, 128 to 256 by 3x3x3, padding 1, strides (1, 1)" in known
        monkeypatch.setattr(convolutions, "_probe", Mock(side_effect=AssertionError))
        film()


def test_a_convolution_that_takes_too_much_memory_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As those of cuDNN 9.8 to 9.14 in half precision do."""
    right = TemporalConv.apply

    def greedy(self: TemporalConv, frames: Tensor, into: Any = None) -> Tensor:
        if self._form == "3d":
            frames.new_empty(27 * frames.numel())
        return right(self, frames, into)

    monkeypatch.setattr(convolutions, "_error", lambda *_: 1e-5)
    monkeypatch.setattr(TemporalConv, "apply", greedy)
    with pretended_gpu(has_values=False):
        choice = convolutions.probe_convolution(GPU, torch.bfloat16)
        half = convolutions.probe_convolution(GPU, torch.float16)
    assert choice.form == "2d"
    assert "needs 15 times its size as workspace" in choice.reason  # 27 times its input
    assert half.form == "kernel"  # which takes part in half precision


def test_the_fastest_attention_is_measured_once_for_a_gpu() -> None:
    some = [BACKENDS[name] for name in ("sdpa", "efficient")]
    with (
        pretended_gpu(has_values=False) as gpu,
        patch.object(attention, "working", return_value=[each.name for each in some]),
    ):
        found = attention.fastest("cuda", torch.float16, 128, 6000)
        assert found in ("sdpa", "efficient")
        waits = [what for what, _ in gpu.record.waits]
        assert waits == ["torch.cuda.synchronize"] * 2
        assert sum(gpu.record.waits.values()) == 2 * len(some) * (attention._RUNS + 1)
        (key,) = json.loads((paths.cache_folder() / "attention.json").read_text())
        assert key.startswith(f"{machine(GPU)}, float16")
        assert "4096 tokens" in key
        with patch.object(attention, "measure") as measure:
            attention._fastest.cache_clear()
            assert attention.fastest(GPU, torch.float16, 128, 6000) == found
        measure.assert_not_called()


def test_attention_is_not_measured_without_memory() -> None:
    with (
        pretended_gpu(has_values=False, total_bytes=2**20) as gpu,
        patch.object(attention, "working", return_value=["sdpa", "efficient"]),
    ):
        assert attention.fastest("cuda", torch.float16, 128, 6000) == "sdpa"
        assert not (paths.cache_folder() / "attention.json").exists()
        gpu.allocator.limit = 2**30
        attention.fastest("cuda", torch.float16, 128, 6000)
        assert (paths.cache_folder() / "attention.json").exists()


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_of_attention_is_tried_and_used(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = install(monkeypatch, name)
    if name == "flash3":
        package.result = lambda out: (out, out.sum())  # its sums too, in some versions
    q, k, v = attention.sample((2, 3, 21, 21), 32)
    with pretended_gpu():
        scale = 0.3
        found = attention.attend(q.cuda(), k.cuda(), v.cuda(), backend=name, scale=scale)
        assert not list(paths.cache_folder().glob("attention-trying-*"))
    assert len(package.calls) == len(attention._SHAPES) + 1
    torch.testing.assert_close(found.cpu(), attention.literal(q, k, v, scale))


def test_a_package_of_another_version_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "sage2")
    with pretended_gpu():
        fault = attention.fault_of(BACKENDS["sage2-fp8"], GPU, torch.float16, 64)
    assert fault == "sageattention has no sageattn_qk_int8_pv_fp8_cuda"


@pytest.mark.parametrize("backend", ["math", attention.AUTO])
def test_a_lack_of_memory_in_attention_is_passed_on(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    greedy = replace(BACKENDS["math"], run=Mock(side_effect=torch.OutOfMemoryError))
    monkeypatch.setitem(BACKENDS, "math", greedy)
    monkeypatch.setattr(attention, "require", lambda *_: None)
    monkeypatch.setattr(attention, "_fastest", lambda *_: "math")
    with pretended_gpu():
        q = torch.ones(1, 2, 8, 16, device="cuda")
        with pytest.raises(torch.OutOfMemoryError):
            attention.attend(q, q, q, backend=backend)


def test_a_product_that_a_gpu_does_not_have_is_refused_by_its_name() -> None:
    with pretended_gpu(), pytest.raises(FeatureMissing) as caught:
        formats.require("nvfp4", GPU)
    assert caught.value.params == {"device": NAME, "kind": "nvfp4", "nearest": "fp8"}


def test_torchs_compiler_needs_triton_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        compiler, "fault_of", lambda device, _: "" if device.type == "cpu" else "no"
    )
    for triton, case in ((None, "triton"), (object(), "compile-on-gpu")):
        with (
            pretended_gpu(),
            patch.object(importlib.util, "find_spec", return_value=triton),
            pytest.raises(FeatureMissing) as caught,
        ):
            compiler.require_compiler(GPU)
        assert caught.value.case == case
    compiler.require_compiler(torch.device("cpu"))
