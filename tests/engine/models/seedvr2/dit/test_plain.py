"""The plain transformer: golden numbers, and what is easily got wrong."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from engine.models.seedvr2.dit.blocks import ATTENTION, MLP, Modulation, rms_norm, sinusoids
from engine.models.seedvr2.dit.config import DIT_3B, DIT_7B
from engine.models.seedvr2.dit.load import load_dit
from engine.models.seedvr2.dit.plain import (
    OutModulation,
    PatchIn,
    PatchOut,
    SeedVr2Dit,
    layout_of,
    picture_angles,
    text_angles,
)
from engine.ops.attention.windows import Window, windows
from tests.helpers.seedvr2 import random_dit, random_inputs, tiny_dit_config

GOLDEN = Path(__file__).parents[4] / "golden" / "seedvr2"
KINDS = ("3b", "7b")
LIMIT = 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_golden_predictions(kind: str) -> None:
    dit = load_dit(GOLDEN / f"dit{kind}_tiny_weights.safetensors", form="plain")
    cases = load_file(GOLDEN / f"dit{kind}_tiny_cases_small.safetensors")
    for tag in ("a", "b", "b2"):
        latent, text = (cases[f"{tag[0]}.{name}"] for name in ("vid_in", "txt_in"))
        shape = cases[f"{tag}.vid_shape"].flatten().tolist()
        found = dit(latent.view(*shape, 33), text, cases[f"{tag}.timestep"].item())
        wanted = cases[f"{tag}.out"]
        torch.testing.assert_close(found.flatten(0, 2), wanted, rtol=0, atol=LIMIT)


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_and_other_types(kind: str) -> None:
    dit = random_dit(tiny_dit_config(kind))
    for shape, text in (((1, 2, 2), 9), ((6, 4, 10), 1)):
        given_ = random_inputs(dit.config, shape, text=text)
        copies = [value.clone() for value in given_]
        result = dit(*given_, 1000.0)
        assert result.shape == (*shape, 16)
        assert 0.5 < result.std() < 5
        torch.testing.assert_close(list(given_), copies, rtol=0, atol=0)
        for dtype, limit in ((torch.float32, 1e-5), (torch.float16, 0.01), (torch.bfloat16, 0.08)):
            narrow = random_dit(dit.config, dtype=dtype)(*(x.to(dtype) for x in given_), 1000.0)
            assert narrow.dtype == dtype
            error = (narrow.double() - result).square().mean().sqrt() / result.std()
            assert error < limit, (shape, dtype)


def test_channels_are_fastest_inside_a_patch() -> None:
    config = tiny_dit_config(in_channels=3, out_channels=3, dim=12)
    into, out = PatchIn(config).double(), PatchOut(config).double()
    for linear in (into.proj, out.proj):
        torch.nn.init.eye_(linear.weight)
        torch.nn.init.zeros_(linear.bias)
    latent = torch.randn(2, 4, 6, 3, dtype=torch.float64)
    tokens = into(latent)
    assert torch.equal(tokens[1, 1, 2], latent[1, 2:4, 4:6].flatten())
    assert torch.equal(out(tokens), latent)


def test_modulation_has_channels_slowest_and_kinds_fastest() -> None:
    modulation = Modulation(5).requires_grad_(False)
    emb = torch.arange(30.0)
    for step, names in ((ATTENTION, "attn"), (MLP, "mlp")):
        for kind, (name, value) in enumerate(
            zip(("shift", "scale", "gate"), modulation(emb, step), strict=True)
        ):
            learned = getattr(modulation, f"{names}_{name}")
            assert torch.equal(value, emb[3 * step + kind :: 6] + learned), (names, name)


def test_the_output_is_modulated_by_the_attentions_share_of_the_time_step() -> None:
    modulation = OutModulation(4).requires_grad_(False)
    modulation.out_shift.copy_(torch.randn(4))
    modulation.out_scale.copy_(torch.randn(4))
    emb, tokens = torch.randn(24), torch.randn(3, 4)
    wanted = tokens * (emb[1::6] + modulation.out_scale) + emb[0::6] + modulation.out_shift
    torch.testing.assert_close(modulation(tokens, emb), wanted)


def test_sines_come_before_cosines() -> None:
    found = sinusoids(437.5, 8)
    angles = [437.5 * 10000 ** (-i / 4) for i in range(4)]
    wanted = [math.sin(a) for a in angles] + [math.cos(a) for a in angles]
    assert found.tolist() == pytest.approx(wanted, abs=1e-4)


def test_only_the_last_block_of_the_3b_leaves_the_text_as_it_is() -> None:
    for kind in KINDS:
        dit, found = random_dit(tiny_dit_config(kind)), {}
        last = dit.blocks[-1]
        last.register_forward_pre_hook(lambda _, given, to=found: to.update(before=given[1]))
        last.attn.register_forward_pre_hook(lambda _, given, to=found: to.update(seen=given[1]))
        dit(*random_inputs(dit.config), 1000.0)
        difference = (found["seen"] - rms_norm(found["before"], None, 1e-5)).abs().max()
        assert (difference < 1e-6) if kind == "3b" else (difference > 0.1), kind


def test_a_last_block_with_separate_weights_has_none_for_what_it_does_not_do() -> None:
    for kind, wanted in (("3b", {"attn"}), ("7b", {"attn", "mlp", "ada"})):
        last = SeedVr2Dit(tiny_dit_config(kind, layers=2, separate_layers=2)).blocks[1]
        assert {n.split(".")[0] for n, _ in last.named_parameters() if ".txt" in n} == wanted


def test_picture_positions_go_on_after_the_text() -> None:
    text = text_angles(DIT_3B, 8)
    assert text is not None
    assert text.shape == (8, 63)
    first = picture_angles(DIT_3B, (2, 3, 4), text_length=7)[0]
    assert torch.equal(first[:21], text[7, :21])
    assert not first[21:].any()
    assert text_angles(DIT_7B, 8) is None
    alone = picture_angles(DIT_7B, (1, 1, 1), text_length=7)
    assert torch.equal(alone, picture_angles(DIT_7B, (2, 2, 2), text_length=3)[:1])
    assert (alone < 0).all(), "a window of one token lies at -1"


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_same_window_sees_a_token_in_one_layer(kind: str) -> None:
    dit = random_dit(tiny_dit_config(kind, layers=1, separate_layers=1))
    latent, text = random_inputs(dit.config, (5, 4, 4))
    changed = latent.clone()
    changed[3, :2, :2] += 1
    differs = (dit(changed, text, 1000.0) != dit(latent, text, 1000.0)).flatten(1).any(1)
    inside = next(w for w in windows((5, 2, 2), dit.config.window, False) if w.t0 <= 3 < w.t1)
    assert differs.tolist() == [inside.t0 <= t < inside.t1 for t in range(5)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_text_gets_the_mean_of_what_each_window_answers(kind: str) -> None:
    config = tiny_dit_config(kind)
    attn = random_dit(config).blocks[0].attn
    vid = torch.randn(6, 2, 2, config.dim, dtype=torch.float64)
    txt = torch.randn(5, config.dim, dtype=torch.float64)
    layout = layout_of(config, (6, 2, 2), 5, False, vid.device)
    picture, text = attn(vid, txt, layout)
    answers = []
    for window in layout.windows:
        alone = replace(layout, windows=[Window(0, window.shape[0], 0, 2, 0, 2)])
        part, answer = attn(vid[window.slices], txt, alone)
        torch.testing.assert_close(part, picture[window.slices])
        answers.append(answer)
    torch.testing.assert_close(torch.stack(answers).mean(0), text)
