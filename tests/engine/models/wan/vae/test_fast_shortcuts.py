"""Shortcuts around the stages of Wan 2.2 in their cheap forms, against the published way."""

from __future__ import annotations

import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.models.video_vae.slice_context import SliceContext
from engine.models.wan.vae.config import Stage
from engine.models.wan.vae.fast_layers import Averaged, Repeated
from engine.models.wan.vae.plain import AveragedShortcut, RepeatedShortcut
from engine.ops.conv.causal_conv import Carry
from engine.ops.conv.workspace import Workspace
from engine.settings.optimisations import VaeSwitches
from tests.helpers.seedvr2 import random_frames

SIZES = st.integers(1, 3)


def stage(inner: int, result: int, *, space: bool, time: bool) -> Stage:
    return Stage(inner=inner, outer=result, blocks=1, result=result, space=space, time=time)


def through(shortcut: Averaged | Repeated, frames: Tensor, result: Tensor, carry: Carry) -> Tensor:
    """What a stage gives that makes `result` out of frames, whatever they are."""
    workspace = Workspace(frames.device, frames.dtype, planned=False)
    context = SliceContext(carry=carry, workspace=workspace, switches=VaeSwitches(), stream=frames)
    kept = shortcut.before(context)
    context.take().fill_(torch.nan)  # a stage works on its input in place
    context.put(result)
    shortcut.add(kept, context)
    return context.take()


def as_clip(frames: Tensor) -> Tensor:
    return frames.movedim(0, 1).unsqueeze(0)


@settings(max_examples=25, deadline=None)
@given(
    count=st.integers(1, 2),
    first=st.booleans(),
    size=st.tuples(SIZES, SIZES),
    widths=st.sampled_from([(4, 4), (4, 8), (8, 4), (2, 8), (4, 16), (8, 2)]),
    space=st.booleans(),
    time=st.booleans(),
)
def test_averaged(
    count: int, first: bool, size: tuple[int, int], widths: tuple[int, int], space: bool, time: bool
) -> None:
    inner, result = widths
    assume(inner * (1 + time) * (4 if space else 1) >= result)  # or there are no whole groups
    where = stage(inner, result, space=space, time=time)
    frames = 2 * count - first if time else count
    x = random_frames(frames, inner, 2 * size[0], 2 * size[1])
    x = x.contiguous(memory_format=torch.channels_last)
    carry = Carry()
    carry.first = first
    wanted = AveragedShortcut(where)(as_clip(x), carry)
    found = through(
        Averaged("", where), x.clone(), torch.zeros_like(wanted[0].movedim(1, 0)), carry
    )
    torch.testing.assert_close(as_clip(found), wanted, rtol=0, atol=1e-14)


@settings(max_examples=25, deadline=None)
@given(
    count=st.integers(1, 3),
    first=st.booleans(),
    size=st.tuples(SIZES, SIZES),
    widths=st.sampled_from([(4, 4), (8, 4), (4, 8), (16, 4)]),
    time=st.booleans(),
)
def test_repeated(
    count: int, first: bool, size: tuple[int, int], widths: tuple[int, int], time: bool
) -> None:
    where = stage(*widths, space=True, time=time)
    x = random_frames(count, widths[0], *size).contiguous(memory_format=torch.channels_last)
    carry = Carry()
    carry.first = first
    wanted = RepeatedShortcut(where)(as_clip(x), carry)
    there = random_frames(*wanted[0].movedim(1, 0).shape, seed=1)
    found = through(Repeated("", where), x.clone(), there.clone(), carry)
    torch.testing.assert_close(as_clip(found - there), wanted, rtol=0, atol=1e-14)
