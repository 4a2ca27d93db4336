import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.ops.conv.causal_conv import Carry, CausalConv3d, ZeroPastConv3d
from tests.helpers.seedvr2 import random_frames, randomise


def make(kernel: int = 3, stride: int = 1) -> CausalConv3d:
    conv = CausalConv3d(2, 3, (kernel, 3, 3), stride=(stride, 1, 1), padding=(0, 1, 1))
    randomise(conv, 1)
    return conv.double().requires_grad_(False)


def in_slices(conv: CausalConv3d, frames: Tensor, lengths: list[int]) -> Tensor:
    carry, results = Carry(), []
    for part in frames.split(lengths, dim=2):
        carry = carry.begin()
        results.append(conv(part, carry))
        carry = carry.done()
    return torch.cat(results, dim=2)


def test_before_the_clip_stand_copies_of_its_first_frame() -> None:
    conv, frames = make(), random_frames(1, 2, 4, 5, 6)
    padded = torch.cat([frames[:, :, :1]] * 2 + [frames], dim=2)
    expected = F.conv3d(padded, conv.weight, conv.bias, padding=(0, 1, 1))
    torch.testing.assert_close(conv(frames), expected, rtol=0, atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=5), st.sampled_from([(1, 1), (3, 1), (3, 2)])
)
def test_slices_equal_the_whole(parts: list[int], table: tuple[int, int]) -> None:
    kernel, stride = table
    lengths = [1 + stride * (parts[0] - 1), *(stride * part for part in parts[1:])]
    conv, frames = make(kernel, stride), random_frames(2, 2, sum(lengths), 3, 4)
    expected = conv(frames)
    assert expected.shape[2] == (sum(lengths) - 1) // stride + 1
    torch.testing.assert_close(in_slices(conv, frames, lengths), expected, rtol=0, atol=1e-12)


def test_a_slice_leaves_the_carry_it_was_given_as_it_was() -> None:
    conv, frames = make(), random_frames(1, 2, 6, 4, 4)
    first = Carry().begin()
    conv(frames[:, :, :2], first)
    given_carry = first.done()
    results = [conv(frames[:, :, 2:], given_carry.begin()) for _ in range(2)]
    assert torch.equal(*results)
    assert not given_carry.first


def test_a_carry_that_was_handed_over_is_empty() -> None:
    conv, frames = make(), random_frames(1, 2, 3, 4, 4)
    carry = Carry().begin()
    conv(frames, carry)
    other = carry.done().handed_over()
    assert carry.bytes_held == 0
    assert other.bytes_held == 2 * 2 * 4 * 4 * 8
    assert other.begin() is other
    with pytest.raises(ValueError, match="handed over"):
        conv(frames, carry.begin())


def test_a_carry_that_was_handed_over_to_a_slice_with_an_error_is_refused() -> None:
    carry = Carry().handed_over()
    carry.begin()  # and the slice ends in an error: `done` is not called
    for again in (carry.begin, carry.handed_over):
        with pytest.raises(ValueError, match="did not end"):
            again()
    assert not carry.done().begin().first


def test_a_carry_holds_no_slice_and_fits_its_clip_alone() -> None:
    conv, carry = make(), Carry().begin()
    conv(random_frames(1, 2, 50, 4, 4), carry)
    tail = carry.tail(conv)
    assert tail is not None
    assert tail.untyped_storage().nbytes() == tail.nbytes
    with pytest.raises(ValueError, match="another clip"):
        conv(random_frames(1, 2, 3, 4, 5), carry.done().begin())
    last = Carry().handed_over(last=True).begin()
    conv(random_frames(1, 2, 3, 4, 4), last)
    assert last.bytes_held == 0


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_black_frames_may_stand_before_the_clip(lengths: list[int]) -> None:
    conv = ZeroPastConv3d(2, 3, 3, padding=(0, 1, 1))
    randomise(conv, 1)
    conv = conv.double().requires_grad_(False)
    frames = random_frames(2, 2, sum(lengths), 3, 4)
    expected = F.conv3d(
        F.pad(frames, (0, 0, 0, 0, 2, 0)), conv.weight, conv.bias, padding=(0, 1, 1)
    )
    torch.testing.assert_close(conv(frames), expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(in_slices(conv, frames, lengths), expected, rtol=0, atol=1e-12)
