"""From noise to a latent: one step, and noise that can be drawn again."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.models.seedvr2.sampler import (
    condition,
    noisy_frames,
    noisy_latent,
    reference_noise,
    sample,
    seeded_noise,
    shifted_timestep,
)
from tests.helpers.seedvr2 import random_dit, random_inputs

SHAPE = (2, 6, 8, 16)


def test_one_step_is_noise_minus_the_prediction() -> None:
    dit = random_dit()
    _, text = random_inputs(dit.config)
    noise, latent = (seeded_noise(SHAPE, seed).double() for seed in (1, 2))
    mask = torch.ones(2, 6, 8, 1, dtype=torch.float64)
    assert torch.equal(condition(latent), torch.cat((latent, mask), dim=-1))
    wanted = noise - dit(torch.cat((noise, latent, mask), dim=-1), text, 1000.0)
    assert torch.equal(sample(dit, noise=noise, condition=condition(latent), text=text), wanted)


STARTS = st.integers(0, 10**6)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**40), STARTS, STARTS, st.integers(1, 4), st.integers(0, 3))
def test_any_part_of_a_shot_can_be_drawn_alone(
    seed: int, shot: int, first: int, steps: int, skipped: int
) -> None:
    whole = seeded_noise((steps + skipped, 2, 4, 16), seed, shot=shot, first=first)
    part = seeded_noise((steps, 2, 4, 16), seed, shot=shot, first=first + skipped)
    assert torch.equal(whole[skipped:], part)


def test_noise_differs_by_seed_by_shot_and_by_step() -> None:
    shape = (1, 4, 4, 16)
    keys = [(seed, shot, first) for seed in (0, 1) for shot in (0, 1) for first in (0, 1)]
    drawn = [seeded_noise(shape, seed, shot=shot, first=first) for seed, shot, first in keys]
    for index, one in enumerate(drawn):
        assert not any(torch.equal(one, other) for other in drawn[:index])


def test_noise_is_normal_and_never_drawn_from_torchs_own_generator() -> None:
    before = torch.get_rng_state()
    for order in ("per-latent", "reference"):
        noise = seeded_noise((3, 32, 32, 16), 42, order)
        assert noise.dtype == torch.float32
        assert abs(noise.mean().item()) < 0.02
        assert noise.std().item() == pytest.approx(1, abs=0.01)
    assert torch.equal(before, torch.get_rng_state())


def test_noise_stays_what_it_was_in_the_first_release() -> None:
    first = seeded_noise((1, 2, 2, 16), 42)[0, 0, 0, :3]
    assert first.tolist() == pytest.approx([0.396912, -0.803924, -0.554187], abs=1e-6)


def test_reference_noise_is_drawn_with_channels_outermost() -> None:
    generator = torch.Generator().manual_seed(3)
    noise = reference_noise(SHAPE, generator)
    assert noise.shape == SHAPE
    assert noise.movedim(-1, 0).is_contiguous()
    assert torch.equal(noise, seeded_noise(SHAPE, 3, "reference"))
    assert not torch.equal(noise, reference_noise(SHAPE, generator))


def test_noise_is_mixed_into_the_latent_only_where_it_is_wanted() -> None:
    latent, noise, more = (torch.randn(SHAPE) for _ in range(3))
    assert noisy_latent(latent, 0.0, noise, noise) is latent
    assert noisy_frames(latent, 0.0, noise) is latent
    mixed = noisy_latent(latent, 1.0, noise, more)
    torch.testing.assert_close(mixed, 0.1 * noise + 0.05 * more)
    share = shifted_timestep(350, (6, 8, 16)) / 1000  # height, width, channels: as published
    wanted = (1 - share) * latent + share * (0.1 * noise + 0.05 * more)
    torch.testing.assert_close(noisy_latent(latent, 0.35, noise, more), wanted)
