"""The fast Wan VAEs equal the plain ones: every layout, switch, length, first and later slices."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from engine.models.wan.vae.config import WanConfig
from engine.models.wan.vae.fast import FastWanVae
from engine.models.wan.vae.plain import WanVae
from engine.models.wan.vae.split import decode_cut, encode_cut
from engine.ops.conv.causal_conv import Carry
from engine.settings.optimisations import VaeSwitches
from tests.helpers.extended import extended
from tests.helpers.seedvr2 import random_frames
from tests.helpers.wan import tiny_wan, tiny_wan_config

EXACT = 1e-10  # of the range of the result, in float64
LAYOUTS = ("2.1", "2.2", "2x")


CHANGED = [
    VaeSwitches(),
    VaeSwitches.all_off(),
    VaeSwitches(convolution="3d"),
    VaeSwitches(convolution="2d"),
    VaeSwitches(convolution="3d", first_frame_fold=False),
    VaeSwitches(convolution="3d", temporal_winograd=True),
    VaeSwitches(first_frame_fold=False, image_mode=False),
    *(
        VaeSwitches().changed(e.name, not e.default)
        for e in VaeSwitches.optimisations()
        if e.name != "compile"  # takes a minute: video_vae/test_compiled.py
    ),
]


def double(plain: WanVae, switches: VaeSwitches | None = None) -> FastWanVae:
    return FastWanVae(plain.config, plain.state_dict(), dtype=torch.float64, switches=switches)


def assert_equal(fast: Tensor, plain: Tensor) -> None:
    assert fast.shape == plain.shape
    assert ((fast - plain).abs().max() / plain.abs().max()).item() < EXACT


def random_latent(config: WanConfig, steps: int, height: int, width: int, batch: int = 1) -> Tensor:
    return random_frames(batch, config.latent_channels, steps, height, width, seed=3)


def random_clip(config: WanConfig, frames: int, height: int, width: int, batch: int = 1) -> Tensor:
    """Frames of so many latent positions."""
    side = config.spatial_factor
    return random_frames(batch, 3, frames, height * side, width * side)


@pytest.fixture(scope="module", params=LAYOUTS)
def plain(request: pytest.FixtureRequest) -> WanVae:
    return tiny_wan(tiny_wan_config(request.param))


@pytest.fixture(scope="module")
def fast(plain: WanVae) -> FastWanVae:
    return double(plain)


@pytest.mark.parametrize("plain", ["2.1", *extended("2.2", "2x")], indirect=True)
def test_every_switch_equals_the_plain_form(plain: WanVae) -> None:
    cases = []
    for frames, slice_frames in ((1, None), (5, None), (9, 4)):  # a first, one within, a last
        clip = random_clip(plain.config, frames, 1, 2)
        latent = random_latent(plain.config, 1 + frames // 4, 2, 1)
        cases.append((slice_frames, clip, plain.posterior(clip), latent, plain.decode(latent)))
    for switches in CHANGED:
        fast = double(plain, switches)
        for size, clip, posterior, latent, pictures in cases:
            fast.disable_slicing() if size is None else fast.enable_slicing(size)
            assert_equal(fast.posterior(clip), posterior)
            assert_equal(fast.decode(latent), pictures)


@settings(max_examples=15, deadline=None)
@given(
    layout=st.sampled_from(LAYOUTS),
    steps=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    size=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    time=st.sampled_from([(False, True, True), (True, False), (False,), (True, True)]),
    blocks=st.integers(1, 2),
    switches=st.sampled_from([VaeSwitches(), VaeSwitches.all_off()]),
)
def test_slices_of_any_length_in_other_configurations(
    layout: Any,
    steps: list[int],
    size: tuple[int, int],
    time: tuple[bool, ...],
    blocks: int,
    switches: VaeSwitches,
) -> None:
    multipliers = (1, 2, 4, 4)[-len(time) - 1 :]
    config = tiny_wan_config(
        layout, time_down=time, multipliers=multipliers, residual_blocks=blocks
    )
    plain = tiny_wan(config)
    fast = double(plain, switches)
    latent = random_latent(config, sum(steps), *size)
    assert_equal(in_slices(fast.decode_slice, latent, steps), plain.decode(latent))
    each = config.temporal_factor
    clip = random_clip(config, 1 + each * (sum(steps) - 1), *size)
    lengths = [1 + each * (steps[0] - 1)] + [each * count for count in steps[1:]]
    assert_equal(in_slices(fast.encode_slice, clip, lengths), plain.posterior(clip))


def in_slices(step: Any, whole: Tensor, lengths: list[int]) -> Tensor:
    carry, parts = Carry(), []
    for part in whole.split(lengths, dim=2):
        result, carry = step(part, carry)
        parts.append(result)
    return torch.cat(parts, dim=2)


def test_a_batch_is_its_clips(plain: WanVae, fast: FastWanVae) -> None:
    latent = random_latent(plain.config, 4, 2, 1, batch=2)
    assert_equal(in_slices(fast.decode_slice, latent, [1, 3]), plain.decode(latent))
    clip = random_clip(plain.config, 9, 1, 1, batch=2)
    assert_equal(in_slices(fast.encode_slice, clip, [1, 8]), plain.posterior(clip))


def test_a_carry_can_be_used_twice_and_keeps_nothing_for_a_last_slice(fast: FastWanVae) -> None:
    latent = random_latent(fast.config, 3, 2, 1)
    _, carry = fast.decode_slice(latent[:, :, :2], Carry())
    once, again = (fast.decode_slice(latent[:, :, 2:], carry)[0] for _ in range(2))
    assert torch.equal(once, again)
    _, carry = fast.decode_slice(latent, Carry(last=True))
    assert carry.bytes_held == 0


def test_what_is_traced_is_what_the_plain_modules_give(plain: WanVae) -> None:
    seen: dict[str, list[Tensor]] = defaultdict(list)
    fast = double(plain)
    fast.trace = lambda name, frames: seen[name].append(frames)
    fast.enable_slicing(4)
    clip, latent = random_clip(plain.config, 9, 1, 2), random_latent(plain.config, 3, 2, 1)
    fast.posterior(clip)
    fast.decode(latent)
    expected = outputs_of_modules(plain, clip, latent)
    shared = seen.keys() & expected.keys()
    assert {name for name in seen if "middle" in name or "samples" in name} <= shared
    assert len(shared) == len(seen) > 30
    for name in shared:
        assert_equal(torch.cat(seen[name], dim=2), expected[name])


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


def test_a_carry_that_does_not_fit_is_refused(fast: FastWanVae) -> None:
    latent = random_latent(fast.config, 1, 2, 3, batch=2)
    _, empty = fast.decode_slice(latent, Carry())
    empty.handed_over()
    _, carry = fast.decode_slice(latent, Carry())
    for kept, some, words in (
        (empty, latent, "handed over"),
        (carry, latent[..., :2], "another clip"),
        (carry, latent[:1], "larger batch"),
    ):
        with pytest.raises(ValueError, match=words):
            fast.decode_slice(some, kept)


def test_what_is_given_stays_as_it_is(fast: FastWanVae) -> None:
    clip, latent = random_clip(fast.config, 5, 1, 1), random_latent(fast.config, 2, 2, 1)
    clip = clip.contiguous(memory_format=torch.channels_last_3d)
    before = clip.clone(), latent.clone()
    fast.posterior(clip)
    fast.decode(latent)
    torch.testing.assert_close((clip, latent), before, rtol=0, atol=0)
    features, _ = fast.decode_low(latent, Carry())
    encoded, _ = fast.encode_high(clip[0].movedim(1, 0), Carry())
    before = features.clone(), encoded.clone()
    fast.decode_high(features, Carry())
    fast.encode_low(encoded, Carry())
    torch.testing.assert_close((features, encoded), before, rtol=0, atol=0)


def test_buffers_go_when_they_are_released(plain: WanVae, fast: FastWanVae) -> None:
    fast.decode(random_latent(plain.config, 2, 2, 2))
    held = fast.workspace.bytes_held
    fast.decode(random_latent(plain.config, 2, 2, 2))
    assert fast.workspace.bytes_held == held > 0
    fast.release()
    assert fast.workspace.bytes_held == 0


def decoded_in_halves(fast: FastWanVae, latent: Tensor, lengths: list[int]) -> Tensor:
    low, high, found = Carry(), Carry(), []
    for part in latent.split(lengths, dim=2):
        features, low = fast.decode_low(part, low)
        frames, high = fast.decode_high(features, high)
        found.append(frames)
    return torch.cat(found).movedim(0, 1).unsqueeze(0)


def encoded_in_halves(fast: FastWanVae, clip: Tensor, lengths: list[int]) -> Tensor:
    low, high, found = Carry(), Carry(), []
    for part in clip.split(lengths, dim=2):
        features, high = fast.encode_high(part[0].movedim(1, 0), high)
        posterior, low = fast.encode_low(features, low)
        found.append(posterior)
    return torch.cat(found, dim=2)


def test_halves_make_the_whole(plain: WanVae, fast: FastWanVae) -> None:
    for lengths in ([1], [3], [1, 1, 1], [2, 3]):
        latent = random_latent(plain.config, sum(lengths), 2, 3)
        assert_equal(decoded_in_halves(fast, latent, lengths), plain.decode(latent))
        frames = [4 * lengths[0] - 3, *(4 * count for count in lengths[1:])]
        clip = random_clip(plain.config, sum(frames), 3, 2)
        assert_equal(encoded_in_halves(fast, clip, frames), plain.posterior(clip))
    with pytest.raises(ValueError, match="one clip"):
        fast.decode_low(latent.expand(2, -1, -1, -1, -1), Carry())


def test_features_between_halves_are_as_large_as_the_cuts_say(fast: FastWanVae) -> None:
    decoding, _ = fast.decode_low(random_latent(fast.config, 3, 2, 3), Carry())
    encoding, _ = fast.encode_high(random_clip(fast.config, 9, 2, 3)[0].movedim(1, 0), Carry())
    for features, cut in ((decoding, decode_cut(fast.config)), (encoding, encode_cut(fast.config))):
        side = fast.config.spatial_factor // cut.factor
        assert features.shape[0] == 1 + 8 // cut.time
        assert features.shape[2:] == (2 * side, 3 * side)
