"""The fast transformer through the kernels' own source, run on the processor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from engine.models.seedvr2.dit.fast import FastDit
from engine.models.seedvr2.dit.load import LoadOptions, load_dit
from engine.ops.kernels import heads, token_rows
from engine.settings.optimisations import DitSwitches
from tests.helpers.kernels import stand_in
from tests.helpers.program import compiled_folder
from tests.helpers.seedvr2 import random_dit, random_inputs, tiny_dit_config, write_dit

pytestmark = pytest.mark.programs("g++")


@pytest.fixture
def folder() -> Path:
    return compiled_folder()


def watch(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What the kernels were asked for; None stands for work left to the PyTorch reference."""
    asked: list[object] = []
    for module in (heads, token_rows):

        def find(*given: Any, _find: Any = module.find) -> Any:
            asked.append(_find(*given))
            return asked[-1]

        monkeypatch.setattr(module, "find", find)
    return asked


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", ["3b", "7b"])
def test_every_pass_fits_its_kernel(
    kind: str, dtype: torch.dtype, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny_dit_config(kind, layers=2)
    fast = FastDit(config)
    fast.load_state_dict(random_dit(config).state_dict())
    fast = fast.to(dtype).requires_grad_(False).eval()
    fast.finish_loading()
    inputs = random_inputs(config, dtype=dtype)
    wanted = fast(*inputs, 1000.0)
    launched, asked = stand_in(monkeypatch, folder), watch(monkeypatch)
    found = fast(*inputs, 1000.0)
    steps = {"rms_modulate", "add_gated", "gather_qk"}
    # in float32 the processor that replaces the GPU does the activation inside the product
    assert set(launched) - {"swiglu"} == steps
    assert ("swiglu" in launched) == (kind == "3b" and dtype != torch.float32)
    assert None not in asked
    error = (found - wanted).double().square().mean().sqrt()
    assert error <= 2 * torch.finfo(dtype).eps * wanted.double().square().mean().sqrt()


@pytest.mark.parametrize("kernels", [True, False])
def test_tokens_are_rounded_by_kernels_unless_these_are_off(
    kernels: bool, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, path = tiny_dit_config("3b", layers=2), tmp_path / "dit"
    write_dit(path, config)
    options = LoadOptions(products="int8", switches=DitSwitches(kernels=kernels))
    inputs = random_inputs(config, dtype=torch.float32)
    wanted = load_dit(path, options=options)(*inputs, 1000.0)
    launched = stand_in(monkeypatch, folder)
    found = load_dit(path, options=options)(*inputs, 1000.0)
    assert ({"round_to_int8", "scale_sums"} <= set(launched)) == kernels
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-3)
