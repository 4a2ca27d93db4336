"""Several steps and guidance, as the published program has them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine.models.seedvr2.sampler import condition, sample, seeded_noise
from tests.helpers.seedvr2 import random_dit, random_inputs
from tests.reference.sampler import Guidance, sample_in_steps, timesteps

SHAPE = (2, 6, 8, 16)


@pytest.fixture
def given_(request: pytest.FixtureRequest) -> dict[str, Tensor]:
    dit = random_dit()
    _, text = random_inputs(dit.config)
    noise, latent = (seeded_noise(SHAPE, seed).double() for seed in (1, 2))
    return {"noise": noise, "condition": condition(latent), "text": text}


def test_one_step_is_that_of_the_product(given_) -> None:
    dit = random_dit()
    assert torch.equal(sample_in_steps(dit, **given_), sample(dit, **given_))


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_an_exact_prediction_gives_the_picture_in_any_number_of_steps(steps: int) -> None:
    picture, noise = (torch.randn(SHAPE, dtype=torch.float64) for _ in range(2))
    asked = []

    def exact(seen: Tensor, text: Tensor, timestep: float) -> Tensor:
        asked.append(timestep)
        share = timestep / 1000
        wanted = (1 - share) * picture + share * noise
        torch.testing.assert_close(seen[..., :16], wanted, rtol=0, atol=1e-12)
        return noise - picture

    result = sample_in_steps(exact, noise, condition(picture), torch.zeros(1, 1), steps=steps)
    torch.testing.assert_close(result, picture, rtol=0, atol=1e-12)
    assert asked == timesteps(steps)


def test_timesteps_go_down_from_noise_in_even_steps() -> None:
    assert timesteps(1) == [1000]
    assert timesteps(4) == [1000, 750, 500, 250]


def test_five_steps_give_the_same_each_time(given_) -> None:
    results = [sample_in_steps(random_dit(), **given_, steps=5) for _ in range(2)]
    assert torch.equal(*results)
    assert not torch.allclose(results[0], sample_in_steps(random_dit(), **given_))


def test_guidance_with_scale_one_changes_nothing(given_) -> None:
    dit = random_dit()
    other = torch.randn_like(given_["text"])
    plain = sample_in_steps(dit, **given_, steps=2)
    for rescale in (0.0, 0.7):
        guided = sample_in_steps(dit, **given_, steps=2, guidance=Guidance(other, 1.0, rescale))
        torch.testing.assert_close(guided, plain, rtol=0, atol=1e-12)


def test_full_rescaling_keeps_the_deviation_of_the_first_prediction() -> None:
    positive, negative = torch.randn(SHAPE), torch.randn(SHAPE)

    def dit(seen: Tensor, text: Tensor, timestep: float) -> Tensor:
        return positive if text.item() else negative

    noise, texts = torch.zeros(SHAPE), (torch.ones(1, 1), torch.zeros(1, 1))
    guidance = Guidance(texts[1], 4.0, 1.0)
    result = sample_in_steps(dit, noise, condition(noise), texts[0], guidance=guidance)
    torch.testing.assert_close(result.std(-1), positive.std(-1))
