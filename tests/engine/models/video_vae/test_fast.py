"""Each VAE in both forms: the fast one equals the plain one, slices and halves equal the whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.seedvr2.vae.fast import FastVae
from engine.models.wan.vae.config import WanConfig
from engine.models.wan.vae.fast import FastWanVae
from engine.ops.conv.causal_conv import Carry
from engine.settings.optimisations import VaeSwitches
from tests.helpers.extended import extended, rest_extended
from tests.helpers.seedvr2 import random_frames, tiny_config, tiny_vae
from tests.helpers.wan import tiny_wan, tiny_wan_config

EXACT = 1e-10  # of the range of the result, in float64
Config = VaeConfig | WanConfig
CONFIGS: dict[str, Config] = {
    "seedvr2": tiny_config(),
    "wan 2.1": tiny_wan_config("2.1"),
    "wan 2.2": tiny_wan_config("2.2"),
    "wan 2x": tiny_wan_config("2x"),
}
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
        if e.name != "compile"  # takes a minute: test_compiled.py
    ),
]


def plain_of(config: Config) -> Any:
    return tiny_vae(config) if isinstance(config, VaeConfig) else tiny_wan(config)


def double(plain: Any, switches: VaeSwitches | None = None) -> Any:
    fast = FastVae if isinstance(plain.config, VaeConfig) else FastWanVae
    return fast(plain.config, plain.state_dict(), dtype=torch.float64, switches=switches)


def assert_equal(found: Tensor, plain: Tensor, exact: float = EXACT) -> None:
    assert found.shape == plain.shape
    assert ((found - plain).abs().max() / plain.abs().max()).item() < exact


def assert_equal_in_slices(
    vae: Any, way: str, clip: Tensor, cuts: list[int], whole: Tensor
) -> None:
    """Slices of the plain form differ by less than those of the fast one."""
    exact = EXACT if isinstance(vae, FastVae | FastWanVae) else 1e-12
    assert_equal(in_slices(getattr(vae, f"{way}_slice"), clip, cuts), whole, exact)


def random_latent(config: Config, steps: int, height: int, width: int, batch: int = 1) -> Tensor:
    return random_frames(batch, config.latent_channels, steps, height, width, seed=3)


def random_clip(config: Config, frames: int, height: int, width: int, batch: int = 1) -> Tensor:
    """Frames of n latent positions."""
    side = config.spatial_factor
    return random_frames(batch, 3, frames, height * side, width * side)


def frames_of(config: Config, steps: list[int]) -> list[int]:
    """Frames of slices of n latents each."""
    each = config.temporal_factor
    return [1 + each * (steps[0] - 1), *(each * count for count in steps[1:])]


def in_slices(
    step: Callable[..., tuple[Tensor, Carry]], whole: Tensor, lengths: list[int]
) -> Tensor:
    carry, parts = Carry(), []
    for part in whole.split(lengths, dim=2):
        result, carry = step(part, carry)
        parts.append(result)
    return torch.cat(parts, dim=2)


@pytest.fixture(scope="module", params=CONFIGS)
def plain(request: pytest.FixtureRequest) -> Any:
    return plain_of(CONFIGS[request.param])


@pytest.fixture(scope="module")
def fast(plain: Any) -> Any:
    return double(plain)


class ReadOnce(dict[str, Tensor]):
    """Tensors that are gone once they were read."""

    def __getitem__(self, name: str) -> Tensor:
        return self.pop(name)


def test_every_tensor_is_read_once(plain: Any) -> None:
    for switches in (VaeSwitches(), VaeSwitches.all_off()):
        weights = ReadOnce(plain.state_dict())
        kind = FastVae if isinstance(plain.config, VaeConfig) else FastWanVae
        kind(plain.config, weights, dtype=torch.float64, switches=switches)
        assert not weights


@pytest.mark.parametrize("plain", rest_extended(CONFIGS, "seedvr2", "wan 2.1"), indirect=True)
def test_every_switch_equals_the_plain_form(plain: Any) -> None:
    cases = []
    for frames, slice_frames in ((1, None), (5, None), (9, 4)):  # a first, one within, a last
        clip = random_clip(plain.config, frames, 1, 3)
        latent = random_latent(plain.config, 1 + frames // 4, 3, 1)
        cases.append((slice_frames, clip, plain.posterior(clip), latent, plain.decode(latent)))
    for switches in CHANGED:
        fast = double(plain, switches)
        for size, clip, posterior, latent, frames in cases:
            fast.disable_slicing() if size is None else fast.enable_slicing(size)
            assert_equal(fast.posterior(clip), posterior)
            assert_equal(fast.decode(latent), frames)


WAN_TIMES = [(False, True, True), (True, False), (False,), (True, True)]
TIMES = [*WAN_TIMES, (), (False, True), (False, False, True)]


def seedvr2_config(time: tuple[bool, ...], groups: int, layers: int, quant: bool) -> VaeConfig:
    sizes = {"norm_groups": groups, "layers_per_block": layers}
    return tiny_config(time, **sizes, quant_conv=quant, post_quant_conv=quant)


def wan_config(layout: Any, time: tuple[bool, ...], blocks: int) -> WanConfig:
    multipliers = (1, 2, 4, 4)[-len(time) - 1 :]
    sizes = {"multipliers": multipliers, "residual_blocks": blocks}
    return tiny_wan_config(layout, time_down=time, **sizes)


@settings(max_examples=24, deadline=None)
@given(
    config=st.builds(
        seedvr2_config,
        st.sampled_from(TIMES),
        st.sampled_from([2, 4]),
        st.integers(1, 2),
        st.booleans(),
    )
    | st.builds(
        wan_config,
        st.sampled_from(["2.1", "2.2", "2x"]),
        st.sampled_from(WAN_TIMES),
        st.integers(1, 2),
    ),
    steps=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    size=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    switches=st.sampled_from([VaeSwitches(), VaeSwitches.all_off()]),
)
def test_slices_of_any_length_in_other_configurations(
    config: Config, steps: list[int], size: tuple[int, int], switches: VaeSwitches
) -> None:
    plain, lengths = plain_of(config), frames_of(config, steps)
    latent, clip = (
        random_latent(config, sum(steps), *size),
        random_clip(config, sum(lengths), *size),
    )
    frames, posterior = plain.decode(latent), plain.posterior(clip)
    assert frames.shape[2] == clip.shape[2]
    assert posterior.shape == (1, 2 * config.latent_channels, sum(steps), *size)
    for vae in (plain, double(plain, switches)):
        assert_equal_in_slices(vae, "decode", latent, steps, frames)
        assert_equal_in_slices(vae, "encode", clip, lengths, posterior)


EARLY, LATE = tiny_config((False, True, True)), tiny_config((True, True, False))


@pytest.mark.parametrize(
    ("config", "fold"),
    [
        (EARLY, True),
        (LATE, False),
        *extended((EARLY, False), (LATE, True)),
        *((config, True) for config in CONFIGS.values() if isinstance(config, WanConfig)),
    ],
)
def test_a_batch_may_be_cut_anywhere_even_after_its_first_step(config: Config, fold: bool) -> None:
    """It equals its clips one by one."""
    plain = plain_of(config)
    latent, clip = random_latent(config, 5, 2, 1, batch=2), random_clip(config, 9, 1, 2, batch=2)
    frames, posterior = (
        torch.cat([run(one) for one in whole.split(1)])
        for run, whole in ((plain.decode, latent), (plain.posterior, clip))
    )
    for vae in (plain, double(plain, VaeSwitches().changed("upsampler_fold", fold))):
        for cuts in ([1, 4], [1, 1, 3], [2, 3], [1, 3, 1]):
            assert_equal_in_slices(vae, "decode", latent, cuts, frames)
        for cuts in ([9], [1, 8]):
            assert_equal_in_slices(vae, "encode", clip, cuts, posterior)


def test_a_carry_can_be_used_twice_and_keeps_nothing_for_a_last_slice(fast: Any) -> None:
    latent, carry = random_latent(fast.config, 5, 2, 1, batch=2), Carry()
    for part in latent.split([1, 3, 1], dim=2):
        once, after = fast.decode_slice(part, carry)
        again, carry = fast.decode_slice(part, carry)
        assert torch.equal(once, again)
        assert after.bytes_held == carry.bytes_held > 0
    _, carry = fast.decode_slice(latent, Carry(last=True))
    assert carry.bytes_held == 0


def test_a_carry_that_does_not_fit_is_refused(fast: Any) -> None:
    latent = random_latent(fast.config, 1, 2, 3, batch=2)
    _, empty = fast.decode_slice(latent, Carry())
    empty.handed_over()
    with pytest.raises(ValueError, match="handed over"):
        fast.decode_slice(latent, empty)
    for first, second, words in (
        (latent[..., 1:], latent, "another clip"),
        (latent, latent[..., 1:], "another clip"),
        (latent[:1], latent, "another clip"),
        (latent, latent[:1], "larger batch"),
    ):
        _, carry = fast.decode_slice(first, Carry())
        with pytest.raises(ValueError, match=words):
            fast.decode_slice(second, carry)


def test_the_caller_keeps_what_it_gave(fast: Any) -> None:
    clip, latent = random_clip(fast.config, 5, 2, 2), random_latent(fast.config, 2, 2, 2)
    clip = clip.contiguous(memory_format=torch.channels_last_3d)
    given = [clip, latent, fast.decode_low(latent, Carry())[0]]
    if isinstance(fast, FastWanVae):
        given.append(fast.encode_high(clip[0].movedim(1, 0), Carry())[0])
    before = [one.clone() for one in given]
    fast.posterior(clip)
    fast.encode(clip)
    fast.decode(latent)
    fast.decode_high(given[2], Carry())
    if isinstance(fast, FastWanVae):
        fast.encode_low(given[3], Carry())
    torch.testing.assert_close(given, before, rtol=0, atol=0)


def test_buffers_stay_after_the_first_slices_until_they_are_released(plain: Any) -> None:
    fast = double(plain)
    fast.enable_slicing(4)
    fast.decode(random_latent(plain.config, 4, 2, 2))
    held = fast.workspace.bytes_held
    fast.decode(random_latent(plain.config, 6, 2, 2))
    assert fast.workspace.bytes_held == held > 0
    fast.release()
    assert fast.workspace.bytes_held == 0


def decoded_in_halves(fast: Any, latent: Tensor, lengths: list[int]) -> Tensor:
    low, high, found = Carry(), Carry(), []
    for part in latent.split(lengths, dim=2):
        features, low = fast.decode_low(part, low)
        frames, high = fast.decode_high(features, high)
        found.append(frames)
    return torch.cat(found).movedim(0, 1).unsqueeze(0)


def encoded_in_halves(fast: Any, clip: Tensor, lengths: list[int]) -> Tensor:
    low, high, found = Carry(), Carry(), []
    for part in clip.split(lengths, dim=2):
        features, high = fast.encode_high(part[0].movedim(1, 0), high)
        posterior, low = fast.encode_low(features, low)
        found.append(posterior)
    return torch.cat(found, dim=2)


def test_halves_make_the_whole(plain: Any, fast: Any) -> None:
    for lengths in ([1], [3], [1, 1, 1], [2, 3]):
        latent = random_latent(plain.config, sum(lengths), 2, 3)
        assert_equal(decoded_in_halves(fast, latent, lengths), plain.decode(latent))
        if isinstance(fast, FastWanVae):
            frames = frames_of(plain.config, lengths)
            clip = random_clip(plain.config, sum(frames), 3, 2)
            assert_equal(encoded_in_halves(fast, clip, frames), plain.posterior(clip))
    with pytest.raises(ValueError, match="one clip"):
        fast.decode_low(latent.expand(2, -1, -1, -1, -1), Carry())
