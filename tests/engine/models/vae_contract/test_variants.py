"""Each VAE in both variants: fast equals plain, slices and halves equal the whole clip."""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from engine.models.video_vae.slicing import LOGVAR_LIMITS
from engine.ops.conv.causal_conv import Carry
from engine.settings.optimisations import VaeSwitches
from engine.settings.requirements import CPU
from tests.helpers.extended import extended, rest_extended
from tests.helpers.vaes import (
    EVERY,
    ROWS,
    AnyVaeRow,
    VaeRow,
    clip_of,
    frames_of,
    in_slices,
    latent_of,
)

EXACT = 1e-10  # of the range of the result, in float64
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
        if e.works_on(CPU) and e.name != "compile"  # takes a minute: test_compiled.py
    ),
]


def assert_equal(found: Tensor, right: Tensor, exact: float = EXACT) -> None:
    assert found.shape == right.shape
    assert ((found - right).abs().max() / right.abs().max()).item() < exact


WITH_HALVES = pytest.mark.parametrize("row", ROWS.values(), indirect=True, ids=str)


@pytest.fixture(scope="module", params=EVERY.values(), ids=str)
def row(request: pytest.FixtureRequest) -> AnyVaeRow:
    found: AnyVaeRow = request.param
    return found


@pytest.fixture(scope="module")
def plain(row: AnyVaeRow) -> Any:
    return row.plain()


@pytest.fixture(scope="module")
def fast(row: AnyVaeRow, plain: Any) -> Any:
    return row.fast(plain)


class ReadOnce(dict[str, Tensor]):
    """Tensors that are gone once they were read."""

    def __getitem__(self, name: str) -> Tensor:
        return self.pop(name)


def test_every_tensor_is_read_once(row: AnyVaeRow, plain: Any) -> None:
    for switches in (VaeSwitches(), VaeSwitches.all_off()):
        weights = ReadOnce(plain.state_dict())
        row.code.loader.fast(plain.config, weights, dtype=torch.float64, switches=switches)
        assert not weights


@pytest.mark.parametrize(
    "row", rest_extended(EVERY.values(), ROWS["seedvr2"], ROWS["wan 2.2"]), indirect=True, ids=str
)
def test_every_switch_equals_the_plain_variant(row: AnyVaeRow, plain: Any) -> None:
    cases = []
    for latents, slice_frames in ((1, None), (4, 4)):  # a first, one in the midst, and a last
        clip = clip_of(row.config, row.frames(latents), 1, 3)
        latent = latent_of(row.config, latents, 3, 1)
        cases.append((slice_frames, clip, plain.posterior(clip), latent, plain.decode(latent)))
    for switches in CHANGED:
        fast = row.fast(plain, switches)
        for size, clip, posterior, latent, frames in cases:
            fast.disable_slicing() if size is None else fast.enable_slicing(size)
            assert_equal(fast.posterior(clip), posterior)
            assert_equal(fast.decode(latent), frames)


@given(
    case=st.sampled_from([(row, config) for row in EVERY.values() for config in row.others]),
    steps=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    size=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    switches=st.sampled_from([VaeSwitches(), VaeSwitches.all_off()]),
)
def equal_in_slices(
    case: tuple[AnyVaeRow, Any],
    steps: list[int],
    size: tuple[int, int],
    switches: VaeSwitches,
) -> None:
    row, config = case
    plain, lengths = row.plain(config), frames_of(row, steps, config)
    latent, clip = latent_of(config, sum(steps), *size), clip_of(config, sum(lengths), *size)
    frames, posterior = plain.decode(latent), plain.posterior(clip)
    height, width = (getattr(config, "upscale", 1) * side for side in clip.shape[3:])
    channels = config.latent_channels * (2 if plain.has_variance else 1)
    assert frames.shape == (1, 3, 1 + config.temporal_factor * (sum(steps) - 1), height, width)
    assert posterior.shape == (1, channels, sum(steps), *size)
    for vae, exact in ((plain, 1e-12), (row.fast(plain, switches), EXACT)):
        assert_equal(in_slices(vae.decode_slice, latent, steps), frames, exact)
        assert_equal(in_slices(vae.encode_slice, clip, lengths), posterior, exact)


@pytest.mark.parametrize("examples", [8, *extended(24)])
def test_slices_of_any_length_in_other_configurations(examples: int) -> None:
    settings(max_examples=examples, deadline=None)(equal_in_slices)()


def test_a_batch_in_slices_is_its_clips_at_once(row: AnyVaeRow, plain: Any, fast: Any) -> None:
    """Each clip has a past of its own, from its first step on."""
    config = row.config
    latent = latent_of(config, 5, 2, 1, batch=2)
    clip = clip_of(config, row.frames(3), 1, 2, batch=2)
    frames, posterior = (
        torch.cat([run(one) for one in whole.split(1)])
        for run, whole in ((plain.decode, latent), (plain.posterior, clip))
    )
    other = row.fast(plain, VaeSwitches().changed("upsampler_fold", False))
    for vae, exact in ((plain, 1e-12), (fast, EXACT), (other, EXACT)):
        for cuts in ([2, 3], [1, 3, 1]):
            assert_equal(in_slices(vae.decode_slice, latent, cuts), frames, exact)
        assert_equal(in_slices(vae.encode_slice, clip, frames_of(row, [1, 2])), posterior, exact)


def test_nothing_sees_the_future(row: AnyVaeRow, plain: Any) -> None:
    clip, latent = clip_of(row.config, row.frames(3), 1, 2), latent_of(row.config, 3, 2, 1)
    assert_equal(
        plain.posterior(clip[:, :, : row.frames(2)]), plain.posterior(clip)[:, :, :2], 1e-12
    )
    assert_equal(plain.decode(latent[:, :, :2]), plain.decode(latent)[:, :, :5], 1e-12)


def test_a_carry_can_be_used_twice_and_keeps_nothing_for_a_last_slice(fast: Any) -> None:
    """It is as large after every slice from the second one on."""
    latent, carry, held = latent_of(fast.config, 5, 2, 1, batch=2), Carry(), []
    for part in latent.split([1, 2, 1, 1], dim=2):
        once, after = fast.decode_slice(part, carry)
        again, carry = fast.decode_slice(part, carry)
        assert torch.equal(once, again)
        assert after.bytes_held == carry.bytes_held
        held.append(carry.bytes_held)
    assert 0 < held[0] <= held[1] == held[2] == held[3]
    _, carry = fast.decode_slice(latent, Carry(last=True))
    assert carry.bytes_held == 0


def test_a_carry_that_does_not_fit_is_refused(row: AnyVaeRow, plain: Any, fast: Any) -> None:
    latent = latent_of(fast.config, 1, 2, 3, batch=2)
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
    _, carry = plain.decode_slice(latent[:1], Carry())
    with pytest.raises(ValueError, match="another clip"):
        plain.decode_slice(latent, carry)
    first = row.frames(1)
    with pytest.raises(ValueError, match=f"{first + 3} frames are no {first}"):
        plain.posterior(clip_of(plain.config, first + 3, 1, 1))


def test_an_error_within_a_slice_leaves_nothing_broken(fast: Any) -> None:
    latent, names = latent_of(fast.config, 3, 2, 3), list[str]()
    fast.trace = lambda name, _: names.append(name)
    carry = fast.decode_slice(latent[:, :, :1], Carry())[1]
    fast.trace = None
    wanted, _ = fast.decode_slice(latent[:, :, 1:], carry)

    def refuse(name: str, frames: Tensor) -> None:
        if name == names[len(names) // 2]:
            raise torch.OutOfMemoryError(f"no {frames.nbytes} bytes")

    given = carry.handed_over()
    other = fast.decode_slice(latent[:, :, :1], Carry())[1]
    fast.trace = refuse
    try:
        for unlucky in (given, other):
            with pytest.raises(torch.OutOfMemoryError):
                fast.decode_slice(latent[:, :, 1:], unlucky)
    finally:
        fast.trace = None
    with pytest.raises(ValueError, match="did not end"):
        fast.decode_slice(latent[:, :, 1:], given)
    assert torch.equal(fast.decode_slice(latent[:, :, 1:], other)[0], wanted)


def test_the_caller_keeps_what_it_gave(row: AnyVaeRow, fast: Any) -> None:
    clip, latent = clip_of(fast.config, row.frames(2), 2, 2), latent_of(fast.config, 2, 2, 2)
    clip = clip.contiguous(memory_format=torch.channels_last_3d)
    given = {}
    if hasattr(fast, "decode_high"):
        given["decode_high"] = fast.decode_low(latent, Carry())[0]
    if hasattr(fast, "encode_high"):
        given["encode_low"] = fast.encode_high(clip[0].movedim(1, 0), Carry())[0]
    values = [clip, latent, *given.values()]
    before = [one.clone() for one in values]
    fast.posterior(clip)
    fast.encode(clip)
    fast.decode(latent)
    for call, one in given.items():
        getattr(fast, call)(one, Carry())
    torch.testing.assert_close(values, before, rtol=0, atol=0)


@pytest.mark.parametrize("around", [False, True])
def test_results_belong_to_the_caller(row: AnyVaeRow, fast: Any, around: bool) -> None:
    with torch.inference_mode(around):
        frames = fast.decode(latent_of(fast.config, 2, 2, 2))
        mean = fast.encode(clip_of(fast.config, row.frames(1), 2, 2))
    assert not mean.requires_grad
    frames.clamp_(-1, 1)
    factor = torch.ones((), dtype=torch.float64, requires_grad=True)
    if not around:  # what `encode` makes of the posterior belongs to torch's mode around it
        (mean * factor).sum().backward()
        torch.testing.assert_close(factor.grad, mean.sum())
    (frames * factor).sum().backward()


def test_buffers_stay_after_the_first_slices_until_they_are_released(
    row: AnyVaeRow, plain: Any
) -> None:
    fast = row.fast(plain)
    fast.enable_slicing(4)
    fast.decode(latent_of(plain.config, 3, 2, 2))
    held = fast.workspace.bytes_held
    fast.decode(latent_of(plain.config, 4, 2, 2))
    assert fast.workspace.bytes_held == held > 0
    fast.release()
    assert fast.workspace.bytes_held == 0


def test_the_beginning_of_a_single_clip_is_not_measured_by_cudnn(
    row: AnyVaeRow, plain: Any
) -> None:
    fast, measures = row.fast(plain), list[bool]()
    fast.enable_slicing(4)
    fast.trace = lambda *_: measures.append(torch.backends.cudnn.benchmark)
    for expected in ([False, True], [True]):
        fast.decode(latent_of(row.config, 3, 1, 1))
        assert [measured for measured, _ in groupby(measures)] == expected
        measures.clear()


def test_the_program_around_us_keeps_its_precision_and_we_ours(fast: Any) -> None:
    outside = torch.get_float32_matmul_precision()
    backends: Any = torch.backends

    def precisions() -> tuple[str, str]:
        return backends.cuda.matmul.fp32_precision, backends.mkldnn.matmul.fp32_precision

    inside = []
    fast.trace = lambda *given: inside.append(precisions())
    try:
        for around in ("highest", "high", "medium"):
            torch.set_float32_matmul_precision(around)
            before = precisions()
            fast.decode(latent_of(fast.config, 1, 1, 1))
            assert precisions() == before
            assert torch.get_float32_matmul_precision() == around
    finally:
        fast.trace = None
        torch.set_float32_matmul_precision(outside)
    assert set(inside) == {("ieee", "ieee")}


def in_halves(vae: Any, side: str, given: Tensor, cuts: list[int]) -> Tensor:
    """A latent, or a clip, through the two halves of a decoder or encoder."""
    low, high, found = Carry(), Carry(), []
    for part in given.split(cuts, dim=2):
        if side == "decode":
            features, low = vae.decode_low(part, low)
            frames, high = vae.decode_high(features, high)
            found.append(frames.movedim(0, 1).unsqueeze(0))
        else:
            features, high = vae.encode_high(part[0].movedim(1, 0), high)
            posterior, low = vae.encode_low(features, low)
            found.append(posterior)
    return torch.cat(found, dim=2)


@WITH_HALVES
def test_halves_make_the_whole(row: VaeRow, plain: Any, fast: Any) -> None:
    for lengths in ([3], [1, 1, 1], [2, 2]):
        latent = latent_of(plain.config, sum(lengths), 2, 3)
        assert_equal(in_halves(fast, "decode", latent, lengths), plain.decode(latent))
        if hasattr(fast, "encode_high"):
            frames = frames_of(row, lengths)
            clip = clip_of(plain.config, sum(frames), 3, 2)
            assert_equal(in_halves(fast, "encode", clip, frames), plain.posterior(clip))
    with pytest.raises(ValueError, match="one clip"):
        fast.decode_low(latent.expand(2, -1, -1, -1, -1), Carry())


@WITH_HALVES
def test_the_log_variance_stays_within_its_limits(row: VaeRow) -> None:
    plain, clip = row.plain(), clip_of(row.config, 5, 2, 2)
    plain.get_parameter(row.last_of_encoder).mul_(1000)
    fast, right = row.fast(plain), plain.posterior(clip)
    mean, logvar = right.chunk(2, dim=1)
    assert (float(logvar.min()), float(logvar.max())) == LOGVAR_LIMITS
    assert mean.abs().max() > 30
    assert_equal(fast.posterior(clip), right)
    if hasattr(fast, "encode_high"):
        assert_equal(in_halves(fast, "encode", clip, [5]), right)


@WITH_HALVES
def test_features_between_halves_are_as_large_as_is_planned(row: VaeRow, fast: Any) -> None:
    pieces, side = row.code.pieces(fast.config, 4), fast.config.spatial_factor
    latent, clip = latent_of(fast.config, 2, 2, 3), clip_of(fast.config, 5, 2, 3)
    given = {"decode_high": fast.decode_low(latent, Carry())[0]}
    if "encode_low" in pieces:
        given["encode_low"] = fast.encode_high(clip[0].movedim(1, 0), Carry())[0]
    for call, features in given.items():
        piece = pieces[call]
        height, width = (places * side // piece.factor for places in (2, 3))
        assert features.shape == (piece.first, piece.channels, height, width)
        assert features.is_contiguous(memory_format=torch.channels_last)


def test_what_is_traced_is_what_the_plain_modules_give(
    row: AnyVaeRow, plain: Any, fast: Any
) -> None:
    seen: dict[str, list[Tensor]] = defaultdict(list)
    fast.trace = lambda name, frames: seen[name].append(frames)
    clip, latent = clip_of(plain.config, row.frames(3), 2, 3), latent_of(plain.config, 3, 2, 3)
    in_slices(fast.encode_slice, clip, frames_of(row, [2, 1]))
    in_slices(fast.decode_slice, latent, [2, 1])
    fast.trace = None
    right = outputs_of_modules(plain, clip, latent)
    assert len(seen.keys() & right.keys()) == len(seen) > 20
    assert {name.partition(".")[0] for name in seen} >= {"encoder", "decoder"}
    for name, parts in seen.items():
        axis = 2 if parts[0].ndim == 5 else 0  # single frames
        assert_equal(torch.cat(parts, dim=axis), right[name])


def outputs_of_modules(plain: Any, clip: Tensor, latent: Tensor) -> dict[str, Tensor]:
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
