"""Values that the fast Wan VAEs expose: traced values, features between halves."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.models.wan.vae.fast import FastWanVae
from engine.models.wan.vae.plain import WanVae
from engine.models.wan.vae.split import decode_cut, encode_cut
from engine.ops.conv.causal_conv import Carry
from tests.helpers.seedvr2 import random_frames
from tests.helpers.wan import tiny_wan, tiny_wan_config


@pytest.fixture(scope="module", params=["2.1", "2.2", "2x"])
def plain(request: pytest.FixtureRequest) -> WanVae:
    return tiny_wan(tiny_wan_config(request.param))


@pytest.fixture
def fast(plain: WanVae) -> FastWanVae:
    return FastWanVae(plain.config, plain.state_dict(), dtype=torch.float64)


def inputs(vae: WanVae) -> tuple[Tensor, Tensor]:
    """A clip of nine frames, and a latent of as many."""
    side = vae.config.spatial_factor
    latent = random_frames(1, vae.config.latent_channels, 3, 2, 3)
    return random_frames(1, 3, 9, 2 * side, 3 * side), latent


def test_what_is_traced_is_what_the_plain_modules_give(plain: WanVae, fast: FastWanVae) -> None:
    seen: dict[str, list[Tensor]] = defaultdict(list)
    fast.trace = lambda name, frames: seen[name].append(frames)
    fast.enable_slicing(4)
    clip, latent = inputs(plain)
    fast.posterior(clip)
    fast.decode(latent)
    expected = outputs_of_modules(plain, clip, latent)
    shared = seen.keys() & expected.keys()
    assert {name for name in seen if "middle" in name or "samples" in name} <= shared
    assert len(shared) == len(seen) > 30
    for name in shared:
        found, value = torch.cat(seen[name], dim=2), expected[name]
        torch.testing.assert_close(found, value, rtol=0, atol=1e-10 * float(value.abs().max()))


def outputs_of_modules(plain: WanVae, clip: Tensor, latent: Tensor) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}

    def watch(name: str, module: nn.Module) -> Any:
        def seen(_module: nn.Module, _given: object, result: Tensor) -> None:
            found[name] = result.clone()

        return module.register_forward_hook(seen)

    handles = [watch(*named) for named in plain.named_modules()]
    plain.posterior(clip)
    plain.decode(latent)
    for handle in handles:
        handle.remove()
    return found


def test_features_between_halves_are_as_large_as_the_cuts_say(
    plain: WanVae, fast: FastWanVae
) -> None:
    clip, latent = inputs(plain)
    decoding, _ = fast.decode_low(latent, Carry())
    encoding, _ = fast.encode_high(clip[0].movedim(1, 0), Carry())
    for features, cut in ((decoding, decode_cut(fast.config)), (encoding, encode_cut(fast.config))):
        side = fast.config.spatial_factor // cut.factor
        assert features.shape[0] == 1 + 8 // cut.time
        assert features.shape[2:] == (2 * side, 3 * side)
