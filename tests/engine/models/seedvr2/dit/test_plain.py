"""The plain transformer: golden numbers, and what is easily got wrong."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.core.errors import ExtraKeys, MissingKeys, WrongShapes
from engine.model_files.formats.safetensors_file import SafetensorsFile
from engine.models.load import load_module
from engine.models.seedvr2.dit.blocks import (
    ATTENTION,
    MLP,
    Modulation,
    rms_norm,
    sinusoids,
)
from engine.models.seedvr2.dit.config import (
    DIT_3B,
    DIT_7B,
    DIT_KEYS,
    DitConfig,
    infer_dit_config,
)
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
from tests.helpers.seedvr2 import random_dit, random_inputs, tiny_dit_config, write_dit

GOLDEN = Path(__file__).parents[4] / "golden" / "seedvr2"
KINDS = ("3b", "7b")
LIMIT = 1e-4


def load(path: Path) -> SeedVr2Dit:
    with SafetensorsFile(path) as file:
        with torch.device("meta"):
            dit = SeedVr2Dit(infer_dit_config(file.shapes, file.metadata))
        load_module(dit, file, DIT_KEYS)
    return dit.eval()


@pytest.mark.parametrize("kind", KINDS)
def test_golden_predictions(kind: str) -> None:
    dit = load(GOLDEN / f"dit{kind}_tiny_weights.safetensors")
    cases = load_file(GOLDEN / f"dit{kind}_tiny_cases_small.safetensors")
    for tag in ("a", "b", "b2"):
        latent, text = (cases[f"{tag[0]}.{name}"] for name in ("vid_in", "txt_in"))
        shape = cases[f"{tag}.vid_shape"].flatten().tolist()
        found = dit(latent.view(*shape, 33), text, cases[f"{tag}.timestep"].item())
        wanted = cases[f"{tag}.out"]
        torch.testing.assert_close(found.flatten(0, 2), wanted, rtol=0, atol=LIMIT)


@pytest.mark.parametrize("frequencies", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_loads_with_and_without_its_rope_buffers(
    tmp_path: Path, kind: str, frequencies: bool
) -> None:
    path = tmp_path / "dit.safetensors"
    wanted = write_dit(path, tiny_dit_config(kind), frequencies=frequencies)
    found = load(path)
    assert found.config == wanted.config
    latent, text = random_inputs(found.config)
    result = found(latent.float(), text.float(), 1000.0).double()
    torch.testing.assert_close(result, wanted(latent, text, 1000.0), rtol=0, atol=1e-4)


def test_frequencies_in_a_file_are_not_used(tmp_path: Path) -> None:
    path = tmp_path / "dit.safetensors"
    write_dit(path)
    latent, text = random_inputs(tiny_dit_config(), dtype=torch.float32)
    before = load(path)(latent, text, 1000.0)
    tensors = {n: 0 * v if n.endswith("freqs") else v for n, v in load_file(path).items()}
    save_file(tensors, path)
    assert torch.equal(load(path)(latent, text, 1000.0), before)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda t: t.pop("blocks.1.attn.norm_q.vid.weight"), MissingKeys),
        (lambda t: t.update({"blocks.1.attn.norm_q.extra": torch.ones(1)}), ExtraKeys),
        (lambda t: t.update({"vid_out.proj.bias": torch.ones(3)}), WrongShapes),
    ],
)
def test_files_load_strictly(tmp_path: Path, change, error: type[Exception]) -> None:
    path = tmp_path / "dit.safetensors"
    write_dit(path)
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)
    with pytest.raises(error):
        load(path)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1, 2, 2), (1, 6, 4), (6, 4, 10)])
@pytest.mark.parametrize("text", [1, 9])
def test_sizes(kind: str, shape: tuple[int, int, int], text: int) -> None:
    dit = random_dit(tiny_dit_config(kind))
    latent, words = random_inputs(dit.config, shape, text=text)
    given_ = latent.clone(), words.clone()
    result = dit(latent, words, 1000.0)
    assert result.shape == (*shape, 16)
    assert 0.5 < result.std() < 5
    assert torch.equal(latent, given_[0])
    assert torch.equal(words, given_[1])


@pytest.mark.parametrize(
    ("dtype", "limit"), [(torch.float32, 1e-5), (torch.float16, 0.01), (torch.bfloat16, 0.08)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_other_types(kind: str, dtype: torch.dtype, limit: float) -> None:
    config = tiny_dit_config(kind)
    latent, text = random_inputs(config)
    wanted = random_dit(config)(latent, text, 1000.0)
    result = random_dit(config, dtype=dtype)(latent.to(dtype), text.to(dtype), 1000.0)
    assert result.dtype == dtype
    assert (result.double() - wanted).square().mean().sqrt() / wanted.std() < limit


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


def seen_by_the_last_attention(dit: SeedVr2Dit) -> tuple[Tensor, Tensor]:
    """Text before the last block, and as its attention sees it."""
    found: dict[str, Tensor] = {}
    last = dit.blocks[-1]
    last.register_forward_pre_hook(lambda _, given: found.update(before=given[1]))
    last.attn.register_forward_pre_hook(lambda _, given: found.update(seen=given[1]))
    dit(*random_inputs(dit.config), 1000.0)
    return found["before"], found["seen"]


def test_the_last_block_of_the_3b_only_looks_at_the_text() -> None:
    before, seen = seen_by_the_last_attention(random_dit())
    torch.testing.assert_close(seen, rms_norm(before, None, 1e-5))


def test_the_last_block_of_the_7b_treats_the_text_as_any_other() -> None:
    before, seen = seen_by_the_last_attention(random_dit(tiny_dit_config("7b")))
    assert not torch.allclose(seen, rms_norm(before, None, 1e-5), atol=0.1)


def test_a_last_block_with_separate_weights_has_none_for_what_it_does_not_do() -> None:
    dit = SeedVr2Dit(tiny_dit_config(layers=2, separate_layers=2))
    names = {name.split(".")[0] for name, _ in dit.blocks[1].named_parameters() if ".txt" in name}
    assert names == {"attn"}
    dit = SeedVr2Dit(tiny_dit_config("7b", layers=2, separate_layers=2))
    names = {name.split(".")[0] for name, _ in dit.blocks[1].named_parameters() if ".txt" in name}
    assert names == {"attn", "mlp", "ada"}


def test_picture_positions_go_on_after_the_text() -> None:
    text = text_angles(DIT_3B, 8)
    assert text is not None
    assert text.shape == (8, 63)
    first = picture_angles(DIT_3B, (2, 3, 4), text_length=7)[0]
    assert torch.equal(first[:21], text[7, :21])
    assert not first[21:].any()
    assert text_angles(DIT_7B, 8) is None


def test_a_window_of_one_token_lies_at_minus_one() -> None:
    alone = picture_angles(DIT_7B, (1, 1, 1), text_length=7)
    assert torch.equal(alone, picture_angles(DIT_7B, (2, 2, 2), text_length=3)[:1])
    assert (alone < 0).all()


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


@settings(max_examples=10, deadline=None)
@given(st.sampled_from(KINDS), st.integers(1, 5), st.integers(1, 6), st.integers(1, 6))
def test_layouts_have_an_angle_for_every_token(kind: str, time: int, rows: int, cols: int) -> None:
    config: DitConfig = tiny_dit_config(kind)
    for shifted in (False, True):
        layout = layout_of(config, (time, rows, cols), 4, shifted, torch.device("cpu"))
        for window in layout.windows:
            angles = layout.angles[window.shape]
            assert len(angles) == window.tokens
            assert angles.dtype == torch.float32
            assert 2 * angles.shape[1] <= config.head_dim
