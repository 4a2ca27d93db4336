from __future__ import annotations

import pytest
import torch
from torch.distributions import Normal
from torch.distributions import kl_divergence as divergence_of

from engine.models.wan.vae.kl import kl_divergence
from tests.helpers.tiny import random_frames


def test_it_is_the_divergence_from_a_standard_normal_distribution() -> None:
    moments = 3 * random_frames(2, 8, 3, 2, 2)
    mean, logvar = moments.chunk(2, dim=1)
    expected = divergence_of(Normal(mean, (0.5 * logvar).exp()), Normal(0.0, 1.0))
    torch.testing.assert_close(kl_divergence(moments), expected.flatten(1).sum(1))


def test_it_is_zero_only_there() -> None:
    assert kl_divergence(torch.zeros(2, 4, 1, 1, 1)).tolist() == [0, 0]
    assert (kl_divergence(random_frames(5, 4, 1, 1, 1)) > 0).all()


def test_its_gradient() -> None:
    moments = random_frames(2, 4, 2, 1, 2).requires_grad_()
    assert torch.autograd.gradcheck(kl_divergence, moments)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_wide(dtype: torch.dtype) -> None:
    moments = torch.full((1, 2, 4, 40, 40), 6.0, dtype=dtype)  # each term beyond, all far beyond
    found = kl_divergence(moments)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, kl_divergence(moments.double()).float())
