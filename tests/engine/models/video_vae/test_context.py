"""What goes through parts of a fast variant: a stream that is handed on, frames that are kept."""

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


def test_a_stream_is_taken_once_and_seen_where_it_has_a_name() -> None:
    going, seen = context(), []
    going.put(random_frames(1, 2, 3, 3), "unseen")
    going.trace = lambda name, frames: seen.append((name, tuple(frames.shape)))
    going.put(going.take())
    going.put(going.take(), "part")
    assert seen == [("part", (1, 2, 3, 3))]
    going.take()
    with pytest.raises(ValueError, match="not put back"):
        going.take()


def test_what_is_kept_is_a_copy_unless_no_slice_follows() -> None:
    for layout in (torch.channels_last, torch.contiguous_format):
        frames = random_frames(4, 2, 3, 4).contiguous(memory_format=layout)
        going = context()
        going.keep("conv", frames[-2:])
        kept = going.kept("conv", (2, 2, 3, 4))
        assert kept.untyped_storage().nbytes() == kept.nbytes
        assert kept.is_contiguous(memory_format=layout)
        frames.zero_()
        assert bool(kept.any())
    last = context(carry=Carry(last=True))
    last.keep("conv", frames[-2:])
    assert not last.keeps("conv")


def test_clips_of_a_batch_keep_frames_apart_and_frames_of_another_are_refused() -> None:
    carry = Carry()
    first, second = context(carry), context(carry)
    second.batch = 1
    first.keep("conv", random_frames(2, 2, 3, 3))
    assert first.keeps("conv")
    assert not second.keeps("conv")
    for name, shape in (("conv", (2, 2, 3, 4)), ("other", (2, 2, 3, 3))):
        with pytest.raises(ValueError, match="belongs to another clip"):
            first.kept(name, shape)
