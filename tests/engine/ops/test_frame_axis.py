from __future__ import annotations

import torch

from engine.ops.frame_axis import folded, unfolded


def test_frames_come_back_as_the_clips_they_were() -> None:
    clips = torch.arange(2 * 3 * 4 * 2 * 2).view(2, 3, 4, 2, 2)
    frames = folded(clips)
    assert torch.equal(frames[5], clips[1, :, 1])
    assert torch.equal(unfolded(frames, 2), clips)


def test_the_frames_of_one_clip_are_no_copy() -> None:
    clip = torch.zeros(1, 3, 4, 2, 2)
    frames = folded(clip)
    frames[2] += 1
    assert clip[0, :, 2].min() == unfolded(frames, 1)[0, :, 2].min() == 1
