from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from engine.bench.cases import transformer as transformer
from engine.bench.cases.transformer import TimedVariant, dit_rows, format_rows, streaming_rows
from engine.bench.run import BenchOptions
from engine.core.errors import NoUsableGpu
from engine.core.geometry import Size
from engine.models.seedvr2.dit.load import LoadOptions
from engine.models.seedvr2.dit.random_dit import DitRun
from engine.ops.linear.formats import PRODUCTS, STORED
from engine.ops.linear.quantized_linear import QuantizedLinear
from tests.helpers.seedvr2 import tiny_dit_config

OPTIONS = BenchOptions(
    size=Size(96, 64), quick=True, device="cpu", memory=False, threads=1, dit=tiny_dit_config()
)


def test_variants_are_timed_in_rounds_and_compared() -> None:
    options = replace(
        OPTIONS, frames=(5, 1), without=("kernels", "in_place"), only=("token_chunks",)
    )
    rows = list(dit_rows(options, "3b"))
    titles = ["plain", "fast", "products and attention", "without kernels", "only token_chunks"]
    assert [row["form"] for row in rows] == 2 * titles
    assert [row["tokens"] for row in rows] == [48] * 5 + [24] * 5
    for row in rows:
        assert row["seconds"] > 0
        assert ("of_plain" in row) == (row["form"] not in ("plain", "products and attention"))
        assert row.get("finite", "yes") == "yes"
    bound = rows[2]
    assert bound["tflop_per_s"] == pytest.approx(bound["tflop"] / bound["seconds"])
    assert bound["attention_calls"] <= bound["window_shapes"]


def test_a_lack_of_memory_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Callable[[], None]:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(DitRun, "work_of", refuse)
    (row,) = dit_rows(replace(OPTIONS, frames=(1,)), "3b")
    assert str(row["note"]) == "not enough memory"


def test_ratios_are_of_the_same_round() -> None:
    first, second = (
        TimedVariant("", lambda: None, seconds=seconds)
        for seconds in ([2.0, 9.0, 4.0], [4.0, 9.0, 16.0])
    )
    assert first.ratio_to(second) == 0.5


CONFIG = tiny_dit_config("7b", dim=256, heads=2, head_dim=128, mlp_hidden=512, text_in_dim=64)
FORMAT_OPTIONS = BenchOptions(size=Size(96, 64), quick=True, device="cpu", threads=1, dit=CONFIG)


@pytest.mark.extended
def test_every_format_is_measured() -> None:
    rows = list(format_rows(FORMAT_OPTIONS, "7b"))
    assert {row["weights"] for row in rows} == {"float32", *STORED, *PRODUCTS}
    for row in rows:
        if "note" not in row:
            assert row["seconds"] > 0
            assert row["finite"] == "yes"
            assert row["blocks"] == "all"


@pytest.mark.parametrize("name", ["", "F8_E4M3", "I8", "Q4_K", "int8"])
def test_streamed_blocks_give_what_resident_ones_give(name: str) -> None:
    run = transformer._fast_run(FORMAT_OPTIONS, "7b")
    found = []
    for blocks in (None, 1):
        products = name if name in PRODUCTS else "none"
        load = LoadOptions(products=products, blocks_on_device=blocks)
        dit = run.loaded(load, "" if name in PRODUCTS else name)
        layers = [layer for layer in dit.blocks.modules() if isinstance(layer, QuantizedLinear)]
        assert bool(layers) == bool(name)
        assert (dit.stream is not None) == (blocks is not None)
        found.append(run.work_of(dit)())
        dit.close()
    torch.testing.assert_close(*found)


def test_a_lack_of_main_memory_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    run = transformer._fast_run(FORMAT_OPTIONS, "7b")
    monkeypatch.setattr(transformer, "ram", lambda: (2**40, 2**40))
    load = transformer._streamed(run, "")
    assert load.pin_bytes == transformer._streamed_bytes(run, "", 0)
    assert "seconds" in transformer._forward_row(FORMAT_OPTIONS, run, "", load)
    monkeypatch.setattr(transformer, "ram", lambda: (2**30, 2**30))
    load = transformer._streamed(run, "")
    assert load.pin_bytes == 0
    row = transformer._forward_row(FORMAT_OPTIONS, run, "", load)
    assert "not enough RAM" in str(row["note"])


def test_streaming_needs_a_gpu() -> None:
    with pytest.raises(NoUsableGpu):
        next(streaming_rows(FORMAT_OPTIONS))
