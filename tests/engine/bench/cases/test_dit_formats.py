import pytest
import torch

from engine.bench.cases import dit_formats
from engine.bench.cases.dit_formats import format_rows, streaming_rows
from engine.bench.options import BenchOptions
from engine.core.errors import NoUsableGpu
from engine.core.geometry import Size
from engine.models.seedvr2.dit import random_dit
from engine.models.seedvr2.dit.load import LoadOptions
from engine.ops.linear.formats import PRODUCTS, STORED
from engine.ops.linear.quantized_linear import QuantizedLinear
from tests.helpers.seedvr2 import tiny_dit_config

CONFIG = tiny_dit_config("7b", dim=256, heads=2, head_dim=128, mlp_hidden=512, text_in_dim=64)
OPTIONS = BenchOptions(size=Size(96, 64), quick=True, device="cpu", threads=1, dit=CONFIG)


@pytest.mark.extended
def test_every_format_is_measured() -> None:
    rows = list(format_rows(OPTIONS, "7b"))
    assert {row["weights"] for row in rows} == {"float32", *STORED, *PRODUCTS}
    for row in rows:
        if "note" not in row:
            assert row["seconds"] > 0
            assert row["finite"] == "yes"
            assert row["blocks"] == "all"


@pytest.mark.parametrize("name", ["", "F8_E4M3", "I8", "Q4_K", "int8"])
def test_streamed_blocks_give_what_resident_ones_give(name: str) -> None:
    run = dit_formats._run(OPTIONS, "7b")
    found = []
    for blocks in (None, 1):
        products = name if name in PRODUCTS else "none"
        load = LoadOptions(products=products, blocks_on_device=blocks)
        dit = random_dit.read(run, load, "" if name in PRODUCTS else name)
        layers = [layer for layer in dit.blocks.modules() if isinstance(layer, QuantizedLinear)]
        assert bool(layers) == bool(name)
        assert (dit.stream is not None) == (blocks is not None)
        found.append(random_dit.work_of(run, dit)())
        dit.close()
    torch.testing.assert_close(*found)


def test_a_lack_of_main_memory_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    run = dit_formats._run(OPTIONS, "7b")
    monkeypatch.setattr(dit_formats, "ram", lambda: (2**40, 2**40))
    load = dit_formats._streamed(run, "")
    assert load.pin_bytes == dit_formats._streamed_bytes(run, "", 0)
    assert "seconds" in dit_formats._row(OPTIONS, run, "", load)
    monkeypatch.setattr(dit_formats, "ram", lambda: (2**30, 2**30))
    load = dit_formats._streamed(run, "")
    assert load.pin_bytes == 0
    row = dit_formats._row(OPTIONS, run, "", load)
    assert "not enough RAM" in str(row["note"])


def test_streaming_needs_a_gpu() -> None:
    with pytest.raises(NoUsableGpu):
        next(streaming_rows(OPTIONS))
