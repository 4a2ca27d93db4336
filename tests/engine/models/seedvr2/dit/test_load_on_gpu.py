"""Transformers on a card, resident and streamed: the same bits, and no more memory than predicted.

Runs without av and Qt.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from engine.models.seedvr2.dit.config import DitConfig
from engine.models.seedvr2.dit.cost import forward_bytes, resident_bytes
from engine.models.seedvr2.dit.fast import FastDit
from engine.models.seedvr2.dit.load import (
    FORMS,
    Form,
    LoadOptions,
    load_dit,
)
from tests.helpers.model_files import write_fp8, write_gguf
from tests.helpers.seedvr2 import random_dit, random_inputs, tiny_dit_config, write_dit

pytestmark = pytest.mark.gpu

MIB = 2**20
SIZES = {"dim": 1024, "heads": 8, "head_dim": 128, "layers": 6, "text_in_dim": 512}


def config_of(kind: str) -> DitConfig:
    own = {"separate_layers": 6, "mlp_hidden": 4096, "rope_dim": 64}
    shared = {"separate_layers": 2, "mlp_hidden": 2816, "rope_dim": 128}
    return tiny_dit_config(kind, **SIZES, **(own if kind == "7b" else shared))


@pytest.mark.parametrize("kind", ["3b", "7b"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("pin_bytes", [0, 10 * MIB, None])
def test_streamed_is_resident_bit_for_bit(
    kind: str, form: Form, dtype: torch.dtype, pin_bytes: int | None, tmp_path: Path
) -> None:
    config = config_of(kind)
    write_dit(tmp_path / "dit", config, dtype=torch.float16)
    latent, text = (x.cuda() for x in random_inputs(config, (2, 30, 46), dtype=dtype))
    wanted = load_dit(tmp_path / "dit", form=form, device="cuda", dtype=dtype)(latent, text, 1000.0)
    for resident in (0, 3, 6):
        options = LoadOptions(blocks_on_device=resident, pin_bytes=pin_bytes)
        dit = load_dit(tmp_path / "dit", form=form, device="cuda", dtype=dtype, options=options)
        for _ in range(3):
            assert torch.equal(dit(latent, text, 1000.0), wanted)
        if isinstance(dit, FastDit) and dit.stream is not None:
            dit.stream.close()


@pytest.mark.parametrize("kind", ["3b", "7b"])
@pytest.mark.parametrize("narrow", ["fp8", "Q8_0"])
def test_narrow_weights_stream_too(kind: str, narrow: str, tmp_path: Path) -> None:
    config = config_of(kind)
    tensors = dict(random_dit(config, dtype=torch.float32).state_dict())
    if narrow == "fp8":
        write_fp8(tmp_path / "dit", tensors)
    else:
        pytest.importorskip("gguf")
        write_gguf(tmp_path / "dit", tensors, narrow)
    latent, text = (x.cuda() for x in random_inputs(config, (2, 30, 46), dtype=torch.bfloat16))
    found = [
        load_dit(
            tmp_path / "dit",
            device="cuda",
            dtype=torch.bfloat16,
            options=LoadOptions(blocks_on_device=blocks),
        )(latent, text, 1000.0)
        for blocks in (None, 2)
    ]
    assert torch.equal(*found)


@pytest.mark.parametrize("kind", ["3b", "7b"])
@pytest.mark.parametrize("blocks", [0, 3, 6, None])
def test_memory_stays_within_what_is_predicted(
    kind: str, blocks: int | None, tmp_path: Path
) -> None:
    config, shape = config_of(kind), (3, 90, 160)
    write_dit(tmp_path / "dit", config, dtype=torch.float16)
    latent, text = (x.cuda() for x in random_inputs(config, shape, text=58, dtype=torch.float16))
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    options = LoadOptions(blocks_on_device=blocks)
    dit = load_dit(tmp_path / "dit", device="cuda", dtype=torch.float16, options=options)
    weights = torch.cuda.memory_allocated() - before
    predicted = resident_bytes(config, 2, blocks, dtype="float16")
    assert weights <= 1.02 * predicted + MIB
    dit(latent, text, 1000.0)
    peak = torch.cuda.max_memory_allocated() - before
    assert peak <= 1.02 * predicted + MIB + forward_bytes(config, shape, 58, "float16")
