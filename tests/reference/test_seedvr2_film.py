"""Whole films as the published program does it; the golden check has its numbers."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.models.seedvr2.sampler import seeded_noise
from tests.helpers.seedvr2 import random_dit, random_frames, tiny_config, tiny_dit_config, tiny_vae
from tests.reference.frames import reference_overlap_weights
from tests.reference.seedvr2_film import (
    Models,
    ReferenceOptions,
    batches,
    lengthened,
    reference_draw,
    upscale_as_reference,
)

PLAIN = ReferenceOptions(short_side=16, colour="none")


def takes_its_condition(seen: Tensor, text: Tensor, timestep: float) -> Tensor:
    """A transformer after which the latent is its condition."""
    channels = (seen.shape[-1] - 1) // 2
    return seen[..., :channels] - seen[..., channels:-1]


@pytest.fixture(scope="module")
def models() -> Models:
    vae = tiny_vae(dtype=torch.float32)
    return Models(vae=vae, dit=takes_its_condition, text=torch.zeros(1, 1))


def film(frames: int, height: int = 16, width: int = 24) -> Tensor:
    return random_frames(frames, 3, height, width, dtype=torch.float32).mul(0.5).add(0.5)


OPTIONS = st.builds(
    lambda batch, overlap, uniform: ReferenceOptions(
        short_side=16, batch=batch, overlap=min(overlap, batch - 1), uniform=uniform
    ),
    st.integers(1, 12),
    st.integers(0, 11),
    st.booleans(),
)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 60), OPTIONS)
def test_every_batch_brings_new_frames_and_shares_the_wanted_ones(
    frames: int, options: ReferenceOptions
) -> None:
    spans = batches(frames, options)
    assert spans[0][0] == 0
    assert spans[-1][1] == frames
    for (_, stop), (start, end) in pairwise(spans):
        assert stop - start == options.overlap
        assert stop < end


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 20), OPTIONS)
def test_batches_are_filled_up_behind_their_end(frames: int, options: ReferenceOptions) -> None:
    numbers = lengthened(frames, options)
    assert numbers[:frames] == list(range(frames))
    assert set(numbers) <= set(range(frames))
    assert len(numbers) % 4 == 1
    least = max(frames, options.batch) if options.uniform else frames
    assert least <= len(numbers) < least + 4


def test_batches_cannot_share_all_of_their_frames() -> None:
    with pytest.raises(ValueError, match="cannot share"):
        ReferenceOptions(short_side=16, batch=5, overlap=5)


@pytest.mark.parametrize(
    ("size", "options", "wanted"),
    [
        ((16, 24), {"short_side": 32}, (32, 48)),
        ((24, 17), {"short_side": 31}, (42, 30)),  # 43 x 31, then even
        ((16, 32), {"short_side": 32, "longest": 40}, (20, 40)),
    ],
)
def test_sizes(models: Models, size, options, wanted) -> None:
    result = upscale_as_reference(film(1, *size), models, replace(PLAIN, **options))
    assert result.shape == (1, 3, *wanted)
    assert result.min() >= 0
    assert result.max() <= 1


@pytest.mark.parametrize("prepend", [0, 1, 4, 9])
@pytest.mark.parametrize("uniform", [False, True])
def test_all_frames_come_out_whatever_was_added(
    models: Models, prepend: int, uniform: bool
) -> None:
    options = replace(PLAIN, prepend=prepend, uniform=uniform, overlap=2)
    assert len(upscale_as_reference(film(7), models, options)) == 7


def test_shared_frames_are_mixed_and_others_are_not(models: Models) -> None:
    frames = film(7)
    options = replace(PLAIN, overlap=3)
    assert batches(7, options) == [(0, 5), (2, 7)]
    result = upscale_as_reference(frames, models, options)
    first, second = (upscale_as_reference(part, models, PLAIN) for part in (frames[:5], frames[2:]))
    torch.testing.assert_close(result[:2], first[:2], rtol=0, atol=1e-6)
    torch.testing.assert_close(result[5:], second[3:], rtol=0, atol=1e-6)
    assert reference_overlap_weights(3) == pytest.approx([1, 0.5, 0])
    stages: dict[str, Tensor] = {}
    upscale_as_reference(frames, models, options, trace=stages.__setitem__)
    middle = (stages["batch0.decoded"][3] + stages["batch1.decoded"][1]) / 2
    torch.testing.assert_close(stages["assembled"][3], middle[..., :16, :24], rtol=0, atol=1e-6)


@pytest.mark.parametrize("method", ["lab", "wavelet", "wavelet_adaptive", "hsv", "adain"])
def test_colours_are_held_to_the_source(models: Models, method: str) -> None:
    frames = film(5)
    plain = upscale_as_reference(frames, models, PLAIN)
    held = upscale_as_reference(frames, models, replace(PLAIN, colour=method))
    assert held.shape == plain.shape
    assert not torch.allclose(held, plain, atol=1e-3)


def test_each_batch_starts_with_the_seed_anew_and_latent_noise_comes_after() -> None:
    shape = (2, 3, 4, 16)
    draw, other = reference_draw(9), reference_draw(9)
    start = draw("start", shape)
    assert torch.equal(start, seeded_noise(shape, 9, "reference"))
    other("frames", (5, 3, 8, 8))
    assert torch.equal(other("start", shape), start)
    assert torch.equal(draw("latent", shape), other("latent", shape))
    assert not torch.equal(draw("latent", shape), start)


def test_noise_options_change_what_they_say_and_repeat() -> None:
    config = tiny_dit_config(in_channels=9, out_channels=4)
    dit = random_dit(config, dtype=torch.float32)
    text = torch.randn(3, config.text_in_dim)
    vae = tiny_vae(tiny_config(), dtype=torch.float32)
    models = Models(vae=vae, dit=dit, text=text)

    def stages(**changes: float) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        upscale_as_reference(film(2), models, replace(PLAIN, **changes), trace=found.__setitem__)
        return found

    with torch.inference_mode():
        plain, again = stages(), stages()
        latent, frames, seed = stages(latent_noise=0.5), stages(input_noise=0.5), stages(seed=1)
    assert torch.equal(plain["assembled"], again["assembled"])
    assert torch.equal(plain["batch0.latent"], latent["batch0.latent"])
    assert not torch.equal(plain["batch0.condition"], latent["batch0.condition"])
    assert not torch.equal(plain["batch0.clip"], frames["batch0.clip"])
    assert torch.equal(plain["batch0.noise"], frames["batch0.noise"])
    assert not torch.equal(plain["batch0.noise"], seed["batch0.noise"])
