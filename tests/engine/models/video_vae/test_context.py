"""What goes through the parts of a fast form: a stream that is handed on, frames that are kept."""

from __future__ import annotations

import pytest
import torch

from engine.models.video_vae.context import SliceContext
from engine.ops.conv.causal_conv import Carry
from engine.ops.conv.workspace import Workspace
from engine.settings.optimisations import VaeSwitches
from tests.helpers.seedvr2 import random_frames


def context(carry: Carry | None = None) -> SliceContext:
    workspace = Workspace(torch.device("cpu"), torch.float32, planned=True, channels_last=True)
    return SliceContext(carry=carry or Carry(), workspace=workspace, switches=VaeSwitches())


def test_a_stream_is_taken_once() -> None:
    going = context()
    going.put(torch.zeros(1))
    going.take()
    with pytest.raises(ValueError, match="not put back"):
        going.take()


def test_what_is_kept_is_a_copy_unless_no_slice_follows() -> None:
    frames = random_frames(4, 2, 3, 3)
    going = context()
    going.keep("conv", frames[-2:])
    kept = going.kept("conv", (2, 2, 3, 3))
    assert kept.untyped_storage().nbytes() == kept.nbytes
    frames.zero_()
    assert bool(kept.any())
    last = context(carry=Carry(last=True))
    last.keep("conv", frames[-2:])
    assert not last.keeps("conv")


def test_clips_of_a_batch_keep_frames_apart() -> None:
    carry = Carry()
    contexts = context(carry), context(carry)
    contexts[1].batch = 1
    contexts[0].keep("conv", random_frames(2, 2, 3, 3))
    assert contexts[0].keeps("conv")
    assert not contexts[1].keeps("conv")


def test_frames_of_another_clip_are_refused() -> None:
    going = context()
    going.keep("conv", random_frames(2, 2, 3, 3))
    for name, shape in (("conv", (2, 2, 3, 4)), ("other", (2, 2, 3, 3))):
        with pytest.raises(ValueError, match="belongs to another clip"):
            going.kept(name, shape)


@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
def test_frames_are_kept_in_their_layout(layout: torch.memory_format) -> None:
    going, frames = context(), random_frames(3, 2, 3, 4).contiguous(memory_format=layout)
    going.keep("conv", frames[1:])
    assert going.kept("conv", (2, 2, 3, 4)).is_contiguous(memory_format=layout)


def test_an_observer_sees_what_has_a_name() -> None:
    going, seen = context(), []
    going.put(random_frames(1, 2, 3, 3), "unseen")
    going.trace = lambda name, frames: seen.append((name, tuple(frames.shape)))
    going.put(going.take())
    going.put(going.take(), "part")
    assert seen == [("part", (1, 2, 3, 3))]
