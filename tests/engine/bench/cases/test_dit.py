from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from engine.bench.cases.dit import TimedVariant, dit_rows
from engine.bench.options import BenchOptions
from engine.core.geometry import Size
from engine.models.seedvr2.dit import random_dit
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

    monkeypatch.setattr(random_dit, "work_of", refuse)
    (row,) = dit_rows(replace(OPTIONS, frames=(1,)), "3b")
    assert str(row["note"]) == "not enough memory"


def test_ratios_are_of_the_same_round() -> None:
    first, second = (
        TimedVariant("", lambda: None, seconds=seconds)
        for seconds in ([2.0, 9.0, 4.0], [4.0, 9.0, 16.0])
    )
    assert first.ratio_to(second) == 0.5
