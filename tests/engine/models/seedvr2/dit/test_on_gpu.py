"""The transformer on a GPU: as exact as on the processor, streamed as resident, within its memory.

Runs without av and Qt, on random weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from engine.models.load import FORMS
from engine.models.seedvr2.dit.config import DitConfig
from engine.models.seedvr2.dit.cost import forward_bytes, resident_bytes, weight_bytes
from engine.models.seedvr2.dit.fast import FastDit
from engine.models.seedvr2.dit.load import LoadOptions, load_dit
from engine.settings.optimisations import DitSwitches
from tests.helpers.fast_dit import fast_dit, gap
from tests.helpers.model_files import write_fp8, write_gguf
from tests.helpers.seedvr2 import random_dit, random_inputs, tiny_dit_config, write_dit

pytestmark = pytest.mark.gpu

KINDS = pytest.mark.parametrize("kind", ["3b", "7b"])
HALF = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
T = 1000.0
MIB = 2**20
SMALL = {"dim": 256, "heads": 2, "head_dim": 128, "mlp_hidden": 512}
LARGE = {"dim": 1024, "heads": 8, "head_dim": 128, "layers": 6, "text_in_dim": 512}
SWITCHES = {
    "usual": DitSwitches(),
    "no kernels": DitSwitches(kernels=False),
    "folded": DitSwitches(folded_modulation=True),
    "all off": DitSwitches.all_off(),
}


def large_config(kind: str) -> DitConfig:
    own = {"separate_layers": 6, "mlp_hidden": 4096, "rope_dim": 64}
    shared = {"separate_layers": 2, "mlp_hidden": 2816, "rope_dim": 128}
    return tiny_dit_config(kind, **LARGE, **(own if kind == "7b" else shared))


@KINDS
@pytest.mark.parametrize("switches", SWITCHES.values(), ids=SWITCHES.keys())
def test_float32_equals_the_processor(kind: str, switches: DitSwitches) -> None:
    plain = random_dit(tiny_dit_config(kind, **SMALL))
    fast = fast_dit(random_dit(plain.config, dtype=torch.float32), switches, device="cuda")
    for shape in ((1, 4, 6), (5, 46, 92)):
        inputs = random_inputs(plain.config, shape, text=7)
        found = fast(*(x.float().cuda() for x in inputs), T)
        assert gap(found.cpu().double(), plain(*inputs, T)) < 1e-4, shape


@KINDS
@HALF
def test_half_precision_is_as_exact_as_the_plain_form(kind: str, dtype: torch.dtype) -> None:
    rounded = random_dit(tiny_dit_config(kind, **SMALL)).to(dtype)
    fast = fast_dit(rounded, device="cuda")
    plain = random_dit(rounded.config).to(dtype).cuda()
    truth, errors = rounded.double(), [0.0, 0.0]
    for seed in range(3):
        inputs = random_inputs(plain.config, (2, 46, 92), text=7, seed=seed, dtype=dtype)
        exact = truth(*(x.double() for x in inputs), T)
        for index, form in enumerate((plain, fast)):
            found = form(*(x.cuda() for x in inputs), T).cpu().double()
            errors[index] += float((found - exact).square().mean())
    assert 0 < errors[1] ** 0.5 <= 1.2 * errors[0] ** 0.5


@KINDS
@HALF
def test_streamed_is_resident_bit_for_bit(kind: str, dtype: torch.dtype, tmp_path: Path) -> None:
    config, path = large_config(kind), tmp_path / "dit"
    write_dit(path, config, dtype=torch.float16)
    latent, text = (x.cuda() for x in random_inputs(config, (2, 30, 46), dtype=dtype))
    for form in FORMS:
        place: dict[str, Any] = {"form": form, "device": "cuda", "dtype": dtype}
        wanted = load_dit(path, **place)(latent, text, T)
        for pin_bytes in (0, 10 * MIB, None):
            for resident in (0, 3, 6):
                options = LoadOptions(blocks_on_device=resident, pin_bytes=pin_bytes)
                dit = load_dit(path, **place, options=options)
                for _ in range(3):
                    assert torch.equal(dit(latent, text, T), wanted), options
                if isinstance(dit, FastDit) and dit.stream is not None:
                    dit.stream.close()


@KINDS
@pytest.mark.parametrize("narrow", ["fp8", "Q8_0"])
def test_narrow_weights_stream_too(kind: str, narrow: str, tmp_path: Path) -> None:
    config, path = large_config(kind), tmp_path / "dit"
    tensors = dict(random_dit(config, dtype=torch.float32).state_dict())
    if narrow == "fp8":
        write_fp8(path, tensors)
    else:
        pytest.importorskip("gguf")
        write_gguf(path, tensors, narrow)
    latent, text = (x.cuda() for x in random_inputs(config, (2, 30, 46), dtype=torch.bfloat16))
    found = []
    for blocks in (None, 2):
        options = LoadOptions(blocks_on_device=blocks)
        dit = load_dit(path, device="cuda", dtype=torch.bfloat16, options=options)
        found.append(dit(latent, text, T))
    assert torch.equal(*found)


@KINDS
@pytest.mark.parametrize("blocks", [0, 3, 6, None])
def test_memory_stays_within_what_is_predicted(
    kind: str, blocks: int | None, tmp_path: Path
) -> None:
    config, shape = large_config(kind), (3, 90, 160)
    write_dit(tmp_path / "dit", config, dtype=torch.float16)
    latent, text = (x.cuda() for x in random_inputs(config, shape, text=58, dtype=torch.float16))
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    options = LoadOptions(blocks_on_device=blocks)
    dit = load_dit(tmp_path / "dit", device="cuda", dtype=torch.float16, options=options)
    weights = torch.cuda.memory_allocated() - before
    predicted = resident_bytes(config, weight_bytes(config, 2, "float16"), blocks)
    assert weights <= 1.02 * predicted + MIB
    dit(latent, text, T)
    peak = torch.cuda.max_memory_allocated() - before
    assert peak <= 1.02 * predicted + MIB + forward_bytes(config, shape, 58, "float16")
