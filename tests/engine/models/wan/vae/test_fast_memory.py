"""Memory of the fast form does not grow with the number of slices."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from engine.models.wan.vae.fast import FastWanVae
from engine.ops.conv.causal_conv import Carry
from tests.helpers.memory import Allocations
from tests.helpers.seedvr2 import random_frames
from tests.helpers.wan import tiny_wan, tiny_wan_config

LENGTHS = (21, 161)


@pytest.fixture(scope="module", params=["2.1", "2.2"])
def fast(request: pytest.FixtureRequest) -> FastWanVae:
    config = tiny_wan_config(request.param, residual_blocks=1)
    vae = FastWanVae(config, tiny_wan(config).state_dict())
    vae.enable_slicing(4)
    return vae


def beyond_the_result(vae: FastWanVae, work: Callable[[], Tensor]) -> int:
    vae.release()  # buffers of a longer slice would hide some of it
    with torch.no_grad(), Allocations() as found:
        result = work()
    return found.peak_bytes - result.untyped_storage().nbytes()


def test_encoding_longer_clips_takes_no_more_memory(fast: FastWanVae) -> None:
    side = 2 * fast.config.spatial_factor
    clips = [random_frames(1, 3, length, side, side, dtype=torch.float32) for length in LENGTHS]
    short, long = (
        beyond_the_result(fast, lambda clip=clip: fast.posterior(clip)) for clip in clips
    )
    assert long <= 1.02 * short


def test_decoding_longer_clips_takes_no_more_memory(fast: FastWanVae) -> None:
    shapes = [(1, fast.config.latent_channels, 1 + length // 4, 2, 2) for length in LENGTHS]
    latents = [random_frames(*shape, dtype=torch.float32) for shape in shapes]
    short, long = (beyond_the_result(fast, lambda some=some: fast.decode(some)) for some in latents)
    assert long <= 1.02 * short


def test_the_carry_stays_as_large_as_after_the_second_slice(fast: FastWanVae) -> None:
    latent = random_frames(1, fast.config.latent_channels, 6, 2, 2, dtype=torch.float32)
    carry, held = Carry(), []
    for part in latent.split(1, dim=2):
        _, carry = fast.decode_slice(part, carry)
        held.append(carry.bytes_held)
    assert len(set(held[1:])) == 1
    assert 0 < held[0] < held[1]


def test_longer_slices_do_take_more(fast: FastWanVae) -> None:
    latent = random_frames(1, fast.config.latent_channels, 9, 2, 2, dtype=torch.float32)
    short = beyond_the_result(fast, lambda: fast.decode(latent))
    fast.enable_slicing(32)
    long = beyond_the_result(fast, lambda: fast.decode(latent))
    fast.enable_slicing(4)
    assert long > 2 * short
