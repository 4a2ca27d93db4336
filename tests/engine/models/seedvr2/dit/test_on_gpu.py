"""The fast transformer on a card: equal to the plain one there, kernels or not, within its memory.

Runs without av and Qt, on random weights. Not yet run on a card.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine.models.seedvr2.dit.cost import forward_bytes
from engine.models.seedvr2.dit.fast import FastDit
from engine.models.seedvr2.dit.plain import SeedVr2Dit
from engine.settings.optimisations import DitSwitches
from tests.helpers.seedvr2 import random_dit, random_inputs, tiny_dit_config

pytestmark = pytest.mark.gpu

KINDS = pytest.mark.parametrize("kind", ["3b", "7b"])
T = 1000.0
SIZES = {"dim": 256, "heads": 2, "head_dim": 128, "rope_dim": 128, "mlp_hidden": 512}
SWITCHES = {
    "usual": DitSwitches(),
    "no kernels": DitSwitches(kernels=False),
    "folded": DitSwitches(folded_modulation=True),
    "all off": DitSwitches.all_off(),
}


def plain_of(kind: str) -> SeedVr2Dit:
    rope = {"rope_dim": 64} if kind == "7b" else {}
    return random_dit(tiny_dit_config(kind, **{**SIZES, **rope}))


def fast_of(plain: SeedVr2Dit, dtype: torch.dtype, switches: DitSwitches) -> FastDit:
    with torch.device("meta"):
        fast = FastDit(plain.config, switches)
    state = {name: value.to("cuda", dtype) for name, value in plain.state_dict().items()}
    fast.load_state_dict(state, assign=True)
    fast.requires_grad_(False)
    fast.finish_loading()
    return fast


def rms(error: Tensor) -> float:
    return error.double().square().mean().sqrt().item()


@KINDS
@pytest.mark.parametrize("switches", SWITCHES.values(), ids=SWITCHES.keys())
@pytest.mark.parametrize("shape", [(1, 4, 6), (5, 46, 92)], ids=str)
def test_float32_equals_the_processor(
    kind: str, switches: DitSwitches, shape: tuple[int, int, int]
) -> None:
    plain = plain_of(kind)
    inputs = random_inputs(plain.config, shape, text=7)
    wanted = plain(*inputs, T)
    found = fast_of(plain, torch.float32, switches)(*(x.float().cuda() for x in inputs), T)
    assert float((found.cpu().double() - wanted).abs().max()) < 1e-4 * float(wanted.abs().max())


@KINDS
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_as_exact_as_the_plain_form(kind: str, dtype: torch.dtype) -> None:
    rounded = plain_of(kind).to(dtype)
    plain = plain_of(kind).to(dtype).cuda()
    fast = fast_of(rounded, dtype, DitSwitches())
    errors = {"plain": 0.0, "fast": 0.0}
    for seed in range(3):
        inputs = random_inputs(plain.config, (2, 46, 92), text=7, seed=seed, dtype=dtype)
        truth = rounded.double()(*(x.double() for x in inputs), T)
        for name, form in (("plain", plain), ("fast", fast)):
            found = form(*(x.cuda() for x in inputs), T).cpu()
            errors[name] += rms(found.double() - truth) ** 2
    assert 0 < errors["fast"] ** 0.5 <= 1.2 * errors["plain"] ** 0.5


@KINDS
def test_memory_is_what_the_planner_expects(kind: str) -> None:
    plain = plain_of(kind)
    fast = fast_of(plain, torch.bfloat16, DitSwitches())
    latent, text = random_inputs(plain.config, (6, 92, 160), text=58, dtype=torch.bfloat16)
    latent, text = latent.cuda(), text.cuda()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    fast(latent, text, T)
    torch.cuda.synchronize()
    taken = torch.cuda.max_memory_allocated() - before
    assert 0 < taken <= forward_bytes(plain.config, (6, 92, 160), 58, "bfloat16", "cuda")
