from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.models.seedvr2.dit import fast_blocks, token_layout
from engine.models.seedvr2.dit.config import windows
from engine.models.seedvr2.dit.fast import FastDit
from engine.models.seedvr2.dit.plain import SeedVr2Dit
from engine.settings.optimisations import DitSwitches
from tests.helpers.extended import extended
from tests.helpers.fast_dit import fast_dit, gap
from tests.helpers.seedvr2 import random_dit, random_inputs, tiny_dit_config

T = 1000.0


BOTH = pytest.mark.parametrize("kind", ["3b", "7b"])
ONE = pytest.mark.parametrize("kind", ["3b", *extended("7b")])


CHANGED = {"all off": DitSwitches.all_off()} | {
    entry.name: DitSwitches().changed(entry.name, not entry.default)
    for entry in DitSwitches.optimisations()
    if entry.name != "compile"  # takes a minute: test_compiled.py
}


@BOTH
def test_it_equals_the_plain_form(kind: str) -> None:
    """The text ends early in a layer with windows of either kind, with own weights or shared."""
    shapes = [((1, 2, 2), 1), ((5, 12, 8), 5), ((3, 46, 58), 2), ((7, 6, 90), 7)]
    for shape, text in shapes:
        plain = random_dit(tiny_dit_config(kind))
        inputs = random_inputs(plain.config, shape, text=text)
        assert gap(fast_dit(plain)(*inputs, T), plain(*inputs, T)) < 1e-10, shape
    for layers, separate in ((1, 0), (1, 1), (2, 1), (5, 0), (5, 2), (5, 5)):
        config = tiny_dit_config(kind, layers=layers, separate_layers=separate)
        plain = random_dit(config)
        inputs = random_inputs(config, (2, 24, 44), text=3)
        assert gap(fast_dit(plain)(*inputs, T), plain(*inputs, T)) < 1e-10, (layers, separate)


@ONE
def test_switches_do_not_change_results(kind: str) -> None:
    plain = random_dit(tiny_dit_config(kind))
    inputs = random_inputs(plain.config, (5, 12, 22), text=3)
    wanted = {timestep: plain(*inputs, timestep) for timestep in (T, 300.0)}
    for name, switches in CHANGED.items():
        fast = fast_dit(plain, switches)
        for timestep in (T, T, 300.0):  # twice with what was kept, then another one
            assert gap(fast(*inputs, timestep), wanted[timestep]) < 1e-10, name


@BOTH
def test_what_is_kept_belongs_to_its_inputs_and_weights(kind: str) -> None:
    plain = random_dit(tiny_dit_config(kind))
    fast = fast_dit(plain)
    latent, text = random_inputs(plain.config, (2, 6, 8), text=4)
    other, words = random_inputs(plain.config, (1, 8, 6), text=6, seed=8)
    calls = [
        (latent, text, T),
        (other, text, T),
        (other, words, T),
        (latent, text, 10.0),
        (latent, words[:4], 10.0),
        (latent, text, T),
    ]
    for call in calls:
        assert gap(fast(*call), plain(*call)) < 1e-10
    text += 1  # the same tensor with other values
    assert gap(fast(latent, text, T), plain(latent, text, T)) < 1e-10
    plain.load_state_dict(random_dit(plain.config, 2).state_dict())
    fast.load_state_dict(plain.state_dict())
    fast.finish_loading()
    assert gap(fast(latent, text, T), plain(latent, text, T)) < 1e-10


def test_results_and_inputs_belong_to_the_caller() -> None:
    fast = fast_dit(random_dit())
    latent, text = random_inputs(fast.config, (2, 6, 8))
    before = latent.clone(), text.clone()
    first = fast(latent, text, T)
    kept = first.clone()
    second = fast(latent * 2, text, T)
    assert torch.equal(first, kept)
    assert not torch.equal(first, second)
    torch.testing.assert_close((latent, text), before, rtol=0, atol=0)


def rms_errors(exact: SeedVr2Dit, *forms: SeedVr2Dit | FastDit, seeds: int) -> list[float]:
    """RMS errors of some forms against float64 with the same rounded weights."""
    errors = [0.0] * len(forms)
    dtype = forms[0].vid_in.proj.weight.dtype
    for seed in range(seeds):
        inputs = random_inputs(exact.config, (2, 24, 44), text=6, seed=seed, dtype=dtype)
        truth = exact(*(x.double() for x in inputs), T)
        for index, form in enumerate(forms):
            errors[index] += float((form(*inputs, T).double() - truth).square().mean())
    return [error**0.5 for error in errors]


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("3b", torch.float16),
        ("7b", torch.bfloat16),
        ("3b", torch.float32),
        *extended(("7b", torch.float16), ("3b", torch.bfloat16), ("7b", torch.float32)),
    ],
    ids=str,
)
def test_rounding_is_that_of_the_plain_form(kind: str, dtype: torch.dtype) -> None:
    """In float32 matrix products may come from another library, which sums in another order."""
    config = tiny_dit_config(kind, layers=6, separate_layers=6 if kind == "7b" else 3)
    plain, exact = random_dit(config).to(dtype), random_dit(config).to(dtype).double()
    narrow = dtype != torch.float32
    fast = fast_dit(plain)
    changed = {"folded_modulation": True} if narrow else {"onednn_matmul": False}
    other = fast_dit(plain, DitSwitches(**changed))
    errors = rms_errors(exact, plain, fast, other, seeds=3 if narrow else 1)
    assert 0 < errors[1] <= (1.2 if narrow else 1.5) * errors[0]
    assert 0 < errors[2] <= 1.5 * errors[0]


@pytest.mark.parametrize(
    ("kind", "name", "factor"),
    [("3b", "proj_out.weight", 5e4), ("7b", "proj_out.weight", 5e4), ("3b", "proj_in.weight", 1e4)],
)
def test_sums_of_layers_may_exceed_float16(kind: str, name: str, factor: float) -> None:
    """Tokens, what layers add to them, and products of SwiGLU with its gate are beyond 65504."""
    plain = random_dit(tiny_dit_config(kind))
    for path, value in plain.named_parameters():
        if path.startswith("blocks.") and path.endswith(name):
            value.mul_(factor)
    plain = plain.half()
    assert all(value.isfinite().all() for value in plain.parameters())
    inputs = random_inputs(plain.config, (2, 24, 44), text=6, dtype=torch.float16)
    truth = deepcopy(plain).double()(*(x.double() for x in inputs), T)
    assert not plain(*inputs, T).isfinite().all()
    for switches in ({}, {"fused_steps": False}, {"in_place_residual": False}):
        found = fast_dit(plain, DitSwitches(**switches))(*inputs, T)
        assert found.dtype == torch.float32
        error = (found.double() - truth).square().mean().sqrt()
        assert error < 0.01 * truth.square().mean().sqrt(), switches


@BOTH
def test_a_float32_stream_rounds_less_than_a_float16_one(kind: str) -> None:
    config = tiny_dit_config(kind, layers=6, separate_layers=6 if kind == "7b" else 3)
    plain, exact = random_dit(config).half(), random_dit(config).half().double()
    narrow, wide = rms_errors(exact, plain, fast_dit(plain), seeds=3)
    assert wide < 0.9 * narrow


@BOTH
def test_windows_of_one_length_attend_in_one_call(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny_dit_config(kind)
    calls: list[tuple[int, ...]] = []
    attend = fast_blocks.attend

    def counted(q: Tensor, *args: Any, **options: Any) -> Tensor:
        calls.append(tuple(q.shape))
        return attend(q, *args, **options)

    monkeypatch.setattr(fast_blocks, "attend", counted)
    fast_dit(random_dit(config))(*random_inputs(config, (5, 46, 92), text=3), T)
    found = [
        windows((5, 23, 46), config.window, shifted=layer % 2 == 1)
        for layer in range(config.layers)
    ]
    assert len(calls) == sum(len({window.tokens for window in layer}) for layer in found)
    assert sum(shape[0] for shape in calls) == sum(map(len, found)) > len(calls)


@ONE
def test_large_groups_are_split(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither rows of a group nor chunks, which begin inside windows, change the result."""
    plain = random_dit(tiny_dit_config(kind))
    inputs = random_inputs(plain.config, (5, 24, 44), text=3)
    wanted = plain(*inputs, T)
    for rows, chunk in ((150, 50), (10**6, 7), (1, 10**6)):
        monkeypatch.setattr(token_layout, "group_rows", lambda _, rows=rows: rows)
        monkeypatch.setattr(fast_blocks, "chunk_rows", lambda *_, chunk=chunk: chunk)
        for switches in (DitSwitches(), DitSwitches(grouped_windows=False)):
            assert gap(fast_dit(plain, switches)(*inputs, T), wanted) < 1e-10


def test_layouts_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, made = random_dit(), []
    make = token_layout.make_layout
    monkeypatch.setattr(token_layout, "make_layout", lambda *a: (made.append(a), make(*a))[1])
    for cached, wanted in ((True, 1), (False, 3)):
        fast = fast_dit(plain, DitSwitches(cached_layout=cached))
        made.clear()
        for _ in range(3):
            fast(*random_inputs(plain.config), T)
        assert len(made) == wanted


def test_the_time_embedding_runs_once_for_a_time_step() -> None:
    fast = fast_dit(random_dit())
    ran: list[object] = []
    for part in (fast.emb_in, fast.txt_in):
        part.register_forward_hook(lambda *_: ran.append(None))
    for timestep, wanted in ((T, 2), (T, 2), (500.0, 3), (500.0, 3), (T, 4)):
        fast(*random_inputs(fast.config), timestep)
        assert len(ran) == wanted


class Visits:
    """A stream whose blocks have their weights only inside, and not a number else."""

    def __init__(self, blocks: nn.ModuleList) -> None:
        self.order: list[int] = []
        self._blocks = [block for block in blocks]
        self._weights = [{n: x.clone() for n, x in b.state_dict().items()} for b in blocks]
        for block in blocks:
            self._spoil(block)

    @contextmanager
    def block(self, index: int) -> Iterator[None]:
        self.order.append(index)
        self._blocks[index].load_state_dict(self._weights[index])
        yield
        self._spoil(self._blocks[index])

    def _spoil(self, block: nn.Module) -> None:
        for value in block.state_dict().values():
            value.fill_(float("nan"))


@BOTH
def test_streamed_weights_give_the_same_values(kind: str) -> None:
    plain = random_dit(tiny_dit_config(kind))
    inputs = random_inputs(plain.config, (2, 24, 44))
    for switches in (DitSwitches(), DitSwitches.all_off()):
        resident, streamed = fast_dit(plain, switches), fast_dit(plain, switches)
        visits: Any = Visits(streamed.blocks)
        streamed.stream = visits
        for timestep in (T, T, 400.0):
            assert torch.equal(streamed(*inputs, timestep), resident(*inputs, timestep))
        assert visits.order == 3 * list(range(plain.config.layers))


def test_buffers_are_used_again_and_given_back() -> None:
    plain = random_dit(tiny_dit_config())
    fast = fast_dit(plain)
    inputs = random_inputs(plain.config, (5, 24, 44))
    fast(*inputs, T)
    held = fast._tools.workspace.bytes_held
    fast(*inputs, T)
    assert fast._tools.workspace.bytes_held == held > 0
    fast.release()
    assert fast._tools.workspace.bytes_held == 0
    assert gap(fast(*inputs, T), plain(*inputs, T)) < 1e-10


def test_a_chosen_attention_is_the_one_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[str] = []
    attend = fast_blocks.attend

    def seen(*qkv: Tensor, backend: str) -> Tensor:
        chosen.append(backend)
        return attend(*qkv, backend=backend)

    monkeypatch.setattr(fast_blocks, "attend", seen)
    plain = random_dit(tiny_dit_config())
    inputs = random_inputs(plain.config)
    found = fast_dit(plain, DitSwitches(attention="math"))(*inputs, T)
    assert set(chosen) == {"math"}
    assert gap(found, plain(*inputs, T)) < 1e-10


def test_gradients_are_never_recorded() -> None:
    fast = fast_dit(random_dit()).requires_grad_(True)
    inputs = random_inputs(fast.config)
    assert not fast(*inputs, T).requires_grad
    with torch.inference_mode():
        assert not fast(*inputs, T).is_inference()


def test_every_block_can_be_seen() -> None:
    plain = random_dit()
    fast = fast_dit(plain)
    seen: dict[str, Tensor] = {}
    fast.trace = lambda name, value: seen.update({name: value.clone()})
    truth: dict[int, tuple[Tensor, Tensor]] = {}
    for layer, block in enumerate(plain.blocks):
        block.register_forward_hook(lambda _m, _i, out, layer=layer: truth.update({layer: out}))
    inputs = random_inputs(plain.config, (2, 24, 44))
    fast(*inputs, T)
    plain(*inputs, T)
    for layer, (picture, text) in truth.items():
        assert gap(seen[f"blocks.{layer}.vid"], picture.flatten(0, 2)) < 1e-10
        if f"blocks.{layer}.txt" in seen:
            assert gap(seen[f"blocks.{layer}.txt"], text) < 1e-10
    assert len(seen) == 2 * plain.config.layers - 1  # no layer reads the last text
