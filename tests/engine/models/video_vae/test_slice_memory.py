"""Memory of a VAE does not grow with the number of slices; the helper that shows it is right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.models.seedvr2.vae.fast import FastVae
from engine.models.wan.vae.fast import FastWanVae
from engine.ops.conv.causal_conv import Carry
from tests.helpers.extended import extended
from tests.helpers.memory import Allocations
from tests.helpers.seedvr2 import random_frames, tiny_config, tiny_vae
from tests.helpers.wan import tiny_wan, tiny_wan_config

MIB = 2**20
SHORT, LONG = 21, 161


def test_what_is_alive_together_adds_up_and_may_stay() -> None:
    before = torch.zeros(MIB // 4)
    with Allocations():
        counted_earlier = torch.empty(MIB, dtype=torch.uint8)
    with Allocations() as found:
        del counted_earlier
        for _ in range(3):  # what is released before the next is taken counts once
            del_me = torch.empty(MIB, dtype=torch.uint8)
            del del_me
        before += before + (before + 1)  # two sums of a MiB, within operators
        del before  # what was there before does not count
        kept = torch.empty(2 * MIB, dtype=torch.uint8)
        passing = torch.empty(3 * MIB, dtype=torch.uint8)
        del passing
        more = torch.empty(MIB, dtype=torch.uint8)
    assert (found.peak_bytes, found.left_bytes) == (5 * MIB, 3 * MIB)
    assert kept.nbytes + more.nbytes == found.left_bytes


@pytest.fixture(
    scope="module", params=["seedvr2 fast", "wan 2.1", *extended("seedvr2 plain", "wan 2.2")]
)
def vae(request: pytest.FixtureRequest) -> Any:
    family, kind = request.param.split()
    if family == "wan":
        config = tiny_wan_config(kind, residual_blocks=1)
        return FastWanVae(config, tiny_wan(config).state_dict())
    plain = tiny_vae(tiny_config(), dtype=torch.float32)
    return plain if kind == "plain" else FastVae(plain.config, plain.state_dict())


@pytest.fixture(autouse=True)
def _sliced(request: pytest.FixtureRequest) -> None:
    if "vae" in request.fixturenames:
        request.getfixturevalue("vae").enable_slicing(4)


def clip_of(vae: Any, frames: int) -> Tensor:
    side = 2 * vae.config.spatial_factor
    return random_frames(1, 3, frames, side, 2 * side, dtype=torch.float32)


def latent_of(vae: Any, steps: int) -> Tensor:
    return random_frames(1, vae.config.latent_channels, steps, 2, 4, dtype=torch.float32)


def beyond_the_result(vae: Any, work: Callable[[], Tensor]) -> int:
    """Peak bytes without those of the result."""
    if hasattr(vae, "release"):
        vae.release()  # buffers of a longer slice would hide some of it
    with torch.no_grad(), Allocations() as found:
        result = work()
    return found.peak_bytes - result.untyped_storage().nbytes()


def test_longer_clips_take_no_more_memory(vae: Any) -> None:
    for run, given in (
        (vae.posterior, [clip_of(vae, length) for length in (SHORT, LONG)]),
        (vae.decode, [latent_of(vae, 1 + length // 4) for length in (SHORT, LONG)]),
    ):
        short, long = (beyond_the_result(vae, lambda x=x, run=run: run(x)) for x in given)
        assert long <= 1.02 * short


def test_longer_slices_do_take_more(vae: Any) -> None:
    latent = latent_of(vae, 9)
    short = beyond_the_result(vae, lambda: vae.decode(latent))
    vae.enable_slicing(32)
    assert beyond_the_result(vae, lambda: vae.decode(latent)) > 2 * short


def test_the_carry_stays_as_large_as_after_the_second_slice(vae: Any) -> None:
    carry, held = Carry(), []
    for part in latent_of(vae, 6).split(1, dim=2):
        _, carry = vae.decode_slice(part, carry)
        held.append(carry.bytes_held)
    assert len(set(held[1:])) == 1
    assert 0 < held[0] <= held[1]
