from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.models.seedvr2.dit import fast_blocks, token_layout
from engine.models.seedvr2.dit.config import DitConfig
from engine.models.seedvr2.dit.fast import FastDit
from engine.models.seedvr2.dit.plain import SeedVr2Dit
from engine.ops.attention.windows import windows
from engine.settings.optimisations import DitSwitches
from tests.helpers.seedvr2 import random_dit, random_inputs, tiny_dit_config

KINDS = pytest.mark.parametrize("kind", ["3b", "7b"])
T = 1000.0
CHANGED = {"all off": DitSwitches.all_off()} | {
    f"{'without' if entry.default else 'with'} {entry.name}": DitSwitches().changed(
        entry.name, not entry.default
    )
    for entry in DitSwitches.optimisations()
    if entry.name != "compile"  # takes a minute: test_dit_compiled.py
}


def fast_of(plain: SeedVr2Dit, switches: DitSwitches | None = None) -> FastDit:
    """The fast form with copies of a plain one's weights."""
    with torch.device("meta"):
        fast = FastDit(plain.config, switches)
    fast.load_state_dict({n: x.clone() for n, x in plain.state_dict().items()}, assign=True)
    fast.requires_grad_(False)
    fast.finish_loading()
    return fast


def gap(found: Tensor, wanted: Tensor) -> float:
    """Largest difference in units of the wanted one's size."""
    return float((found - wanted).abs().max() / wanted.abs().max())


@KINDS
@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((1, 2, 2), 1),
        ((1, 6, 10), 3),
        ((5, 12, 8), 5),
        ((3, 46, 58), 2),
        ((2, 30, 92), 4),
        ((7, 6, 90), 7),
    ],
)
def test_it_equals_the_plain_form(kind: str, shape: tuple[int, int, int], text: int) -> None:
    plain = random_dit(tiny_dit_config(kind))
    inputs = random_inputs(plain.config, shape, text=text)
    assert gap(fast_of(plain)(*inputs, T), plain(*inputs, T)) < 1e-10


@KINDS
@pytest.mark.parametrize("switches", CHANGED.values(), ids=CHANGED.keys())
def test_switches_do_not_change_results(kind: str, switches: DitSwitches) -> None:
    plain = random_dit(tiny_dit_config(kind))
    fast = fast_of(plain, switches)
    inputs = random_inputs(plain.config, (5, 24, 44), text=3)
    for timestep in (T, T, 300.0):  # twice with what was kept, then another one
        assert gap(fast(*inputs, timestep), plain(*inputs, timestep)) < 1e-10


@KINDS
@pytest.mark.parametrize("layers", [1, 2, 5])
def test_any_number_of_layers(kind: str, layers: int) -> None:
    """The text ends early in a layer with windows of either kind, with own weights or shared."""
    for separate in {0, layers // 2, layers}:
        config = tiny_dit_config(kind, layers=layers, separate_layers=separate)
        plain = random_dit(config)
        inputs = random_inputs(config, (2, 24, 44), text=3)
        assert gap(fast_of(plain)(*inputs, T), plain(*inputs, T)) < 1e-10


@KINDS
def test_what_is_kept_belongs_to_its_inputs(kind: str) -> None:
    plain = random_dit(tiny_dit_config(kind))
    fast = fast_of(plain)
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
    text += 1  # the same tensor with other numbers
    assert gap(fast(latent, text, T), plain(latent, text, T)) < 1e-10


def test_results_and_inputs_belong_to_the_caller() -> None:
    plain = random_dit(tiny_dit_config())
    fast = fast_of(plain)
    latent, text = random_inputs(plain.config, (2, 6, 8))
    before = latent.clone(), text.clone()
    first = fast(latent, text, T)
    kept = first.clone()
    second = fast(latent * 2, text, T)
    assert torch.equal(first, kept)
    assert not torch.equal(first, second)
    assert torch.equal(latent, before[0])
    assert torch.equal(text, before[1])


def test_new_weights_are_seen() -> None:
    first, second = (random_dit(tiny_dit_config(), seed) for seed in (1, 2))
    fast = fast_of(first)
    inputs = random_inputs(first.config)
    fast(*inputs, T)
    fast.load_state_dict(second.state_dict())
    fast.finish_loading()
    assert gap(fast(*inputs, T), second(*inputs, T)) < 1e-10


@KINDS
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_as_exact_as_the_plain_form(kind: str, dtype: torch.dtype) -> None:
    """Against float64 with the same rounded weights, over several inputs."""
    config = tiny_dit_config(kind, layers=6, separate_layers=6 if kind == "7b" else 3)
    plain = random_dit(config).to(dtype)
    exact = random_dit(config).to(dtype).double()
    fast = fast_of(plain)
    errors = {"plain": 0.0, "fast": 0.0}
    for seed in range(3):
        inputs = random_inputs(config, (2, 24, 44), text=6, seed=seed, dtype=dtype)
        truth = exact(*(x.double() for x in inputs), T)
        for name, form in (("plain", plain), ("fast", fast)):
            errors[name] += float((form(*inputs, T).double() - truth).square().mean())
    assert 0 < errors["fast"] ** 0.5 <= 1.2 * errors["plain"] ** 0.5


@KINDS
@pytest.mark.parametrize("onednn", [True, False])
def test_float32_is_as_exact_as_the_plain_form(kind: str, onednn: bool) -> None:
    """On a processor its products may come from another library, which sums in another order."""
    exact = random_dit(tiny_dit_config(kind, dim=64, mlp_hidden=192)).float().double()
    plain = random_dit(exact.config).float()
    fast = fast_of(plain, DitSwitches(onednn_matmul=onednn))
    latent, text = random_inputs(exact.config, (2, 24, 44), text=6, dtype=torch.float32)
    truth = exact(latent.double(), text.double(), T)
    errors = [(form(latent, text, T) - truth).square().mean() for form in (plain, fast)]
    assert 0 < float(errors[1]) ** 0.5 <= 1.5 * float(errors[0]) ** 0.5


@KINDS
def test_windows_of_one_shape_attend_in_one_call(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny_dit_config(kind)
    calls: list[tuple[int, ...]] = []
    attend = fast_blocks.attend

    def counted(q: Tensor, *args: Any, **options: Any) -> Tensor:
        calls.append(tuple(q.shape))
        return attend(q, *args, **options)

    monkeypatch.setattr(fast_blocks, "attend", counted)
    inputs = random_inputs(config, (5, 46, 92), text=3)
    fast_of(random_dit(config))(*inputs, T)
    wanted = 0
    for layer in range(config.layers):
        found = windows((5, 23, 46), config.window, shifted=layer % 2 == 1)
        wanted += len({window.shape for window in found})
        assert len(found) > len({window.shape for window in found})
    assert len(calls) <= wanted
    assert sum(shape[0] for shape in calls) == sum(
        len(windows((5, 23, 46), config.window, shifted=layer % 2 == 1))
        for layer in range(config.layers)
    )


def test_large_groups_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither rows of a group nor chunks change the result."""
    plain = random_dit(tiny_dit_config())
    inputs = random_inputs(plain.config, (5, 24, 44), text=3)
    made: list[int] = []

    def small(config: DitConfig, key: token_layout.LayoutKey, rows: int) -> token_layout.DitLayout:
        layout = make_layout(config, key, rows // 100)
        made.append(len(layout.orders[0].groups))
        return layout

    make_layout = token_layout.make_layout
    whole = make_layout(plain.config, fast_of(plain)._key(*inputs))
    monkeypatch.setattr(token_layout, "make_layout", small)
    monkeypatch.setattr(fast_blocks, "chunk_rows", lambda *_: 50)
    assert gap(fast_of(plain)(*inputs, T), plain(*inputs, T)) < 1e-10
    assert made[0] > len(whole.orders[0].groups)


def test_layouts_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = random_dit(tiny_dit_config())
    fast, forgetful = fast_of(plain), fast_of(plain, DitSwitches(cached_layout=False))
    made: list[object] = []
    make = token_layout.make_layout
    monkeypatch.setattr(token_layout, "make_layout", lambda *a: (made.append(a), make(*a))[1])
    for form, wanted in ((fast, 1), (forgetful, 3)):
        made.clear()
        for _ in range(3):
            form(*random_inputs(plain.config), T)
        assert len(made) == wanted


def test_the_time_embedding_runs_once_for_a_time_step() -> None:
    plain = random_dit(tiny_dit_config())
    fast = fast_of(plain)
    ran: list[object] = []
    fast.emb_in.register_forward_hook(lambda *_: ran.append(None))
    fast.txt_in.register_forward_hook(lambda *_: ran.append(None))
    for timestep, wanted in ((T, 2), (T, 2), (500.0, 3), (500.0, 3), (T, 4)):
        fast(*random_inputs(plain.config), timestep)
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


@KINDS
@pytest.mark.parametrize("switches", [DitSwitches(), DitSwitches.all_off()], ids=["on", "off"])
def test_streamed_weights_give_the_same_numbers(kind: str, switches: DitSwitches) -> None:
    plain = random_dit(tiny_dit_config(kind))
    resident, streamed = fast_of(plain, switches), fast_of(plain, switches)
    visits = Visits(streamed.blocks)
    stream: Any = visits
    streamed.stream = stream
    inputs = random_inputs(plain.config, (2, 24, 44))
    for timestep in (T, T, 400.0):
        assert torch.equal(streamed(*inputs, timestep), resident(*inputs, timestep))
    assert visits.order == 3 * list(range(plain.config.layers))


class Twin(nn.Module):
    """A layer that is no nn.Linear, as quantised ones are."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.inside = linear
        self.in_features, self.out_features = linear.in_features, linear.out_features

    def forward(self, x: Tensor) -> Tensor:
        """A product."""
        return torch.as_tensor(self.inside(x))


@KINDS
def test_other_linear_layers_serve(kind: str) -> None:
    plain = random_dit(tiny_dit_config(kind))
    fast = fast_of(plain)
    for name, module in list(fast.named_modules()):
        if isinstance(module, nn.Linear) and not name.startswith("emb_in."):
            owner, _, leaf = name.rpartition(".")
            setattr(fast.get_submodule(owner), leaf, Twin(module))
    inputs = random_inputs(plain.config, (2, 24, 44))
    assert gap(fast(*inputs, T), plain(*inputs, T)) < 1e-10


def test_buffers_are_used_again_and_given_back() -> None:
    plain = random_dit(tiny_dit_config())
    fast = fast_of(plain)
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
    found = fast_of(plain, DitSwitches(attention="math"))(*inputs, T)
    assert set(chosen) == {"math"}
    assert gap(found, plain(*inputs, T)) < 1e-10


def test_gradients_are_never_recorded() -> None:
    plain = random_dit(tiny_dit_config())
    fast = fast_of(plain)
    fast.requires_grad_(True)
    found = fast(*random_inputs(plain.config), T)
    assert not found.requires_grad
    with torch.inference_mode():
        assert not fast(*random_inputs(plain.config), T).is_inference()


def test_every_block_can_be_seen() -> None:
    config: DitConfig = tiny_dit_config()
    plain = random_dit(config)
    fast = fast_of(plain)
    seen: dict[str, Tensor] = {}
    fast.trace = lambda name, value: seen.update({name: value.clone()})
    truth: dict[str, tuple[Tensor, Tensor]] = {}
    for layer, block in enumerate(plain.blocks):
        block.register_forward_hook(lambda _m, _i, out, layer=layer: truth.update({layer: out}))
    inputs = random_inputs(config, (2, 24, 44))
    fast(*inputs, T)
    plain(*inputs, T)
    for layer, (picture, text) in truth.items():
        assert gap(seen[f"blocks.{layer}.vid"], picture.flatten(0, 2)) < 1e-10
        if f"blocks.{layer}.txt" in seen:
            assert gap(seen[f"blocks.{layer}.txt"], text) < 1e-10
    assert len(seen) == 2 * config.layers - 1  # the last text is nobody's
