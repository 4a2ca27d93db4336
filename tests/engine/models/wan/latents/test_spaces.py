from __future__ import annotations

import json
from pathlib import Path

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import Tensor

from engine.models.wan.latents.spaces import (
    MODELS,
    SPACES,
    WAN21,
    WAN22,
    LatentSpace,
    guess,
    normalised,
    raw,
)

WAN = Path(__file__).parents[4] / "golden" / "wan"


def a_clip(space: LatentSpace, contrast: float, seed: int) -> Tensor:
    """Normalised latents [C, 4, 6, 6] of a clip with its own mean and contrast."""
    generator = torch.Generator().manual_seed(seed)
    shape = (space.channels, 4, 6, 6)
    places = 0.4 * torch.randn(space.channels, 1, 1, 1, generator=generator)
    return contrast * torch.randn(shape, generator=generator) + places


def guessed(latent: Tensor) -> tuple[str, bool]:
    values = latent.double().flatten(1)
    found = guess(values.mean(1).tolist(), values.std(1).tolist())
    return found.reading, found.is_sure


def test_the_statistics_are_the_published_ones() -> None:
    published = json.loads((WAN / "latent_stats.json").read_text(encoding="utf-8"))
    for name, space in (("wan21", WAN21), ("wan22", WAN22)):
        assert space.channels == published[name]["z_dim"]
        assert list(space.mean) == published[name]["mean"]
        assert list(space.std) == published[name]["std"]


def test_normalised_is_the_references_bit_by_bit() -> None:
    for name in ("wan21_tiny_io_t5_b2", "wan22_tiny_io_t1"):
        io = load_file(WAN / f"{name}.safetensors")
        assert torch.equal(normalised(io["mu"]), io["mu_norm"])


def test_normalised_is_what_comfyui_does_too() -> None:
    """It divides by the deviation, which is rounded otherwise."""
    expected = load_file(WAN / "comfyui_latent_expected.safetensors")
    for name in ("wan21", "wan22"):
        stored = load_file(WAN / f"comfyui_{name}_00001_.latent")["latent_tensor"]
        torch.testing.assert_close(normalised(stored), expected[f"{name}.normalized"])


def test_there_and_back() -> None:
    for space in SPACES.values():
        latent = torch.randn(2, space.channels, 2, 3, 3, dtype=torch.float64)
        assert (normalised(raw(latent)) - latent).abs().max() < 1e-12
        assert MODELS[space.model] is space


@settings(max_examples=20, deadline=None)
@given(
    space=st.sampled_from(list(SPACES.values())),
    contrast=st.floats(0.3, 1.2),
    seed=st.integers(0, 1000),
)
def test_clips_of_any_contrast_are_told_apart(
    space: LatentSpace, contrast: float, seed: int
) -> None:
    clip = a_clip(space, contrast, seed)
    assert guessed(clip) == ("normalised", True)
    assert guessed(raw(clip)) == ("raw", True)


def test_values_between_both_kinds_and_zeros_are_not_called_sure() -> None:
    for space, share in ((WAN21, 0.7), (WAN22, 0.2)):
        means = [mean * share for mean in space.mean]
        assert not guess(means, [std**share for std in space.std]).is_sure
    assert not guess([0.0] * 48, [0.0] * 48).is_sure
