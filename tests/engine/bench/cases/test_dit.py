from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from engine.bench.cases import dit
from engine.bench.cases.dit import Entry, dit_rows
from engine.bench.cases.dit_runs import base_run
from engine.bench.options import BenchOptions
from engine.bench.timing import process_memory
from engine.bench.timing.matmul_replay import Replay
from engine.core.geometry import Size
from engine.core.serialization import from_plain, to_plain
from engine.models.seedvr2.dit.config import DIT_3B, DIT_7B
from engine.models.seedvr2.dit.random_dit import (
    MIDDLE,
    Kind,
    build,
    inputs_of,
    work_of,
)
from engine.settings.optimisations import DitSwitches
from tests.helpers.tiny_dit import tiny_dit_config

OPTIONS = BenchOptions(
    size=Size(96, 64), quick=True, device="cpu", memory=False, threads=1, dit=tiny_dit_config()
)


def test_forms_take_turns_and_are_compared() -> None:
    options = replace(
        OPTIONS, frames=(5, 1), without=("kernels", "in_place"), only=("token_chunks",)
    )
    rows = list(dit_rows(options, "3b"))
    forms = ["plain", "fast", "products and attention", "without kernels", "only token_chunks"]
    assert [row["form"] for row in rows] == 2 * forms
    assert [row["tokens"] for row in rows] == [48] * 5 + [24] * 5
    for row in rows:
        assert row["seconds"] > 0
        assert ("of_plain" in row) == (row["form"] not in ("plain", "products and attention"))
        assert row.get("finite", "yes") == "yes"
    ceiling = rows[2]
    assert ceiling["tflop_per_s"] == pytest.approx(ceiling["tflop"] / ceiling["seconds"])
    assert ceiling["attention_calls"] <= ceiling["window_shapes"]


def test_ratios_are_of_the_same_turn() -> None:
    def entry(seconds: list[float]) -> Entry:
        return Entry("", lambda: None, seconds=seconds)

    assert entry([2.0, 9.0, 4.0]).over(entry([4.0, 9.0, 16.0])) == 0.5


@pytest.mark.parametrize("kind", ["3b", "7b"])
def test_both_forms_have_the_same_weights_and_inputs(kind: Kind) -> None:
    options = replace(OPTIONS, dit=tiny_dit_config(kind), dtype="float64")
    base = base_run(options, kind)
    plain = build(base)
    wanted = work_of(base, plain)()
    assert wanted.shape == (2, 8, 12, 16)
    assert 0.1 < float(wanted.std()) < 10
    for switches in (DitSwitches(), DitSwitches(folded_modulation=True)):
        run = replace(base, form="fast", switches=switches)
        assert float((work_of(run, build(run, plain))() - wanted).abs().max()) < 1e-10
    alone = replace(base, form="fast")
    assert float((work_of(alone, build(alone))() - wanted).abs().max()) < 1e-10
    assert float((work_of(base, plain)() - wanted).abs().max()) == 0  # nobody changed its weights
    assert all(torch.equal(*pair) for pair in zip(inputs_of(base), inputs_of(alone), strict=True))


def test_sizes_suit_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    run = base_run(BenchOptions(device="cpu"), "7b")
    assert (run.dtype, run.config, run.latent_shape) == ("float32", MIDDLE["7b"], (2, 90, 160))
    assert run.tokens == 2 * 45 * 80
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    found = [base_run(BenchOptions(), kind) for kind in ("3b", "7b")]
    assert [run.config for run in found] == [DIT_3B, DIT_7B]
    assert {run.dtype for run in found} == {"bfloat16"}
    odd = base_run(BenchOptions(device="cpu", size=Size(856, 480)), "3b")
    assert odd.latent_shape == (2, 60, 108)


def test_memory_is_measured_in_another_process() -> None:
    run = replace(base_run(OPTIONS, "3b"), form="fast")
    assert from_plain(type(run), to_plain(run)) == run
    found = process_memory.memory_of(run)
    assert found.is_alone
    assert found.traffic_bytes > 48 * 32 * 4


def test_a_lack_of_memory_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Callable[[], None]:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(dit, "work_of", refuse)
    (row,) = dit_rows(replace(OPTIONS, frames=(1,)), "3b")
    assert row["note"] == "not enough memory"


def test_a_replay_is_the_products_and_nothing_else() -> None:
    weight, bias = torch.randn(6, 8), torch.randn(6)
    x = torch.randn(2, 3, 4, 8)
    with Replay([weight]) as replay:
        y = torch.nn.functional.linear(x[0, 0], weight, bias).relu()
        torch.mm(y, torch.ones(6, 5))
        torch.nn.functional.scaled_dot_product_attention(x, x[:, :, :2], x[:, :, :2])
    products = 2 * 4 * 6 * 8 + 2 * 4 * 5 * 6
    assert replay.flops == products + 4 * (2 * 3) * 4 * 2 * 8
    assert replay.attention_calls == 1
    with Replay([]) as again:
        replay.run()
    assert again.flops == replay.flops


def test_a_replay_reads_the_weights_themselves() -> None:
    weight = torch.zeros(6, 8)
    with Replay([weight]) as replay:
        torch.nn.functional.linear(torch.randn(4, 8), weight)
    weight.fill_(float("nan"))
    results: list[torch.Tensor] = []

    class Results(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            results.append(func(*args, **(kwargs or {})))
            return results[-1]

    with Results():
        replay.run()
    assert bool(results[0].isnan().all())
