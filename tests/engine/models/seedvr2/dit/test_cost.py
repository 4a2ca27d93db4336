"""Bytes and operations of the transformer against what torch takes and what was published."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from engine.models.seedvr2.dit.config import DIT_3B, DIT_7B, FORMAT_BYTES, DitConfig, parameters
from engine.models.seedvr2.dit.cost import (
    forward_bytes,
    forward_flops,
    resident_bytes,
    streamed_bytes,
    unpacked_bytes,
    weight_bytes,
)
from engine.models.seedvr2.dit.fast import FastDit
from engine.models.seedvr2.dit.load import LoadOptions, load_dit
from tests.helpers.extended import extended
from tests.helpers.fast_dit import fast_dit
from tests.helpers.memory import Allocations
from tests.helpers.model_files import write_fp8
from tests.helpers.seedvr2 import random_dit, random_inputs, tiny_dit_config, write_dit

GB = 10**9
# From the tables of reference_timing.json: latent, operations of linear layers and of attention.


PUBLISHED = {
    "3b": {
        (1, 90, 160): (18563812884480, 552287928320),
        (6, 136, 240): (248816224174080, 12487357235200),
    },
    "7b": {
        (2, 90, 160): (59190379020288, 1491177406464),
        (6, 136, 240): (399740305932288, 16857932267520),
    },
}


SIZED = {"3b": DIT_3B, "7b": DIT_7B}


def middle_config(kind: str) -> DitConfig:
    """Large enough that tokens outweigh scratch."""
    shared = {"separate_layers": 1, "mlp_hidden": 704, "rope_dim": 64}
    own = {"separate_layers": 3, "mlp_hidden": 1024, "rope_dim": 32}
    sizes = shared if kind == "3b" else own
    return tiny_dit_config(kind, dim=256, heads=4, head_dim=64, layers=3, **sizes)


@pytest.mark.parametrize("kind", SIZED)
def test_parameters_and_operations(kind: str) -> None:
    """torch does not count the attention of a processor."""
    assert parameters(SIZED[kind]) == {"3b": 3_391_475_776, "7b": 8_239_607_872}[kind]
    for layers, separate in ((3, 3), (3, 1), (2, 0)):
        config = tiny_dit_config(kind, layers=layers, separate_layers=separate)
        assert parameters(config) == sum(p.numel() for p in random_dit(config).parameters())
    for shape, flops in PUBLISHED[kind].items():
        found = forward_flops(SIZED[kind], shape)
        assert (found.linear, found.attention) == flops
        assert 0 < found.ends < 0.001 * found.linear
    config = tiny_dit_config(kind)
    latent, text = random_inputs(config, (3, 12, 10))
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        random_dit(config)(latent, text, 1000.0)
    assert counter.get_total_flops() == forward_flops(config, (3, 12, 10), len(text)).linear


def peak_of(dit: FastDit, shape: tuple[int, int, int], dtype: torch.dtype) -> int:
    """Bytes of a forward with fresh buffers, after attention was measured once."""
    dit(*random_inputs(dit.config, (1, 2, 2), dtype=dtype), 1000.0)
    dit.release()
    latent, text = random_inputs(dit.config, shape, text=20, dtype=dtype)
    with Allocations() as found:
        dit(latent, text, 1000.0)
    return found.peak_bytes


SHAPES = ((1, 90, 120), (2, 60, 160), (9, 32, 42))
MORE = [("7b", torch.float32, SHAPES)]
MORE += [("3b", half, SHAPES[:1]) for half in (torch.bfloat16, torch.float16)]


@pytest.mark.parametrize(
    ("kind", "dtype", "shapes"),
    [("3b", torch.float32, SHAPES)]
    + [("7b", half, SHAPES[:1]) for half in (torch.bfloat16, torch.float16)]
    + extended(*MORE)
    + [pytest.param(kind, torch.bfloat16, SHAPES[1:], marks=pytest.mark.slow) for kind in SIZED],
)
def test_memory_of_a_forward_is_predicted(
    kind: str, dtype: torch.dtype, shapes: tuple[tuple[int, int, int], ...]
) -> None:
    config = middle_config(kind)
    plain = random_dit(config, dtype=dtype)
    for shape in shapes:
        found = peak_of(fast_dit(plain), shape, dtype)
        predicted = forward_bytes(config, shape, 20, str(dtype).removeprefix("torch."), "cpu")
        assert found <= predicted <= 1.25 * found, shape


@pytest.mark.parametrize("kind", SIZED)
def test_memory_of_weights_that_are_widened_is_predicted(kind: str, tmp_path: Path) -> None:
    config, shape = middle_config(kind), (1, 90, 120)
    write_fp8(tmp_path / "fp8", dict(random_dit(config).state_dict()))
    dit = load_dit(tmp_path / "fp8", dtype=torch.bfloat16)
    assert isinstance(dit, FastDit)
    found = peak_of(dit, shape, torch.bfloat16)
    predicted = forward_bytes(config, shape, 20, "bfloat16", "cpu", widened=True)
    assert found <= predicted <= 1.3 * found
    assert found > forward_bytes(config, shape, 20, "bfloat16", "cpu")


@pytest.mark.parametrize("kind", SIZED)
def test_weights_on_the_device_are_predicted(kind: str, tmp_path: Path) -> None:
    """What is resident and the buffers; a file in half precision, computed in bfloat16."""
    config = middle_config(kind)
    fp16 = weight_bytes(config, FORMAT_BYTES["fp16"])
    path = tmp_path / "model.safetensors"
    write_dit(path, config, dtype=torch.float16)
    for blocks in (0, 1, 2):
        options = LoadOptions(blocks_on_device=blocks)
        dit = load_dit(path, dtype=torch.bfloat16, options=options)
        assert isinstance(dit, FastDit)
        assert dit.stream is not None
        there = [value for value in dit.parameters() if value.dtype == torch.bfloat16]
        held = sum(value.nbytes for value in there) + dit.stream.buffer_bytes
        assert held <= resident_bytes(config, fp16, blocks) <= 1.01 * held
        coming = [value for value in dit.parameters() if value.dtype == torch.float16]
        waiting = sum(value.nbytes for value in coming)
        assert waiting <= streamed_bytes(config, fp16, blocks) <= 1.01 * waiting
    whole = sum(value.nbytes for value in load_dit(path, dtype=torch.bfloat16).parameters())
    assert whole <= resident_bytes(config, fp16, None) <= 1.01 * whole


def test_unpacking_reads_packed_bytes_and_writes_values_once() -> None:
    for config, kind in product((DIT_3B, DIT_7B), ("Q4_K", "fp8")):
        stored = weight_bytes(config, FORMAT_BYTES[kind])
        ends = weight_bytes(config, 2).ends / 2  # values before and after the blocks
        wanted = (FORMAT_BYTES[kind] + 2) * (parameters(config) - ends)
        assert unpacked_bytes(config, stored) == pytest.approx(wanted, rel=0.001)
        assert unpacked_bytes(config, weight_bytes(config, 2)) == 0


def test_bytes_of_the_published_files() -> None:
    """As FORMAT_BYTES has them: fp16 6.8 and 16.5 GB, the text's share of the 7B 8.2 GB."""
    of = {config: weight_bytes(config, 2) for config in (DIT_3B, DIT_7B, *SIZED.values())}
    assert resident_bytes(DIT_3B, of[DIT_3B], None) == pytest.approx(6.78 * GB, rel=0.01)
    assert resident_bytes(DIT_7B, of[DIT_7B], None) == pytest.approx(16.5 * GB, rel=0.01)
    saved = resident_bytes(DIT_7B, of[DIT_7B], None) - resident_bytes(DIT_7B, of[DIT_7B], 36)
    assert saved == pytest.approx(8.2 * GB - 2 * 0.227 * GB, rel=0.05)
    for config in SIZED.values():  # a processor keeps all when all blocks stay
        whole = resident_bytes(config, of[config], None)
        assert resident_bytes(config, of[config], config.layers, device="cpu") == whole
