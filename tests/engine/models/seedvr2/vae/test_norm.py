"""Norms of frames far from zero, in both variants: no digits are lost."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from engine.models.seedvr2.vae.fast_layers import GroupNorm
from engine.models.video_vae.slice_context import NormInput, SliceContext
from engine.ops.conv.causal_conv import Carry
from engine.ops.conv.workspace import Workspace
from engine.settings.optimisations import VaeSwitches
from tests.helpers.seedvr2 import random_frames, tiny_vae


def test_a_mean_far_from_zero_costs_no_digits() -> None:
    norm = GroupNorm((torch.ones(8), torch.zeros(8)), 4, 1e-6)
    workspace = Workspace(torch.device("cpu"), torch.float32, planned=True, channels_last=True)
    for layout in (torch.channels_last, torch.contiguous_format):
        frames = 30 + random_frames(2, 8, 24, 32, dtype=torch.float32)
        frames = frames.contiguous(memory_format=layout)
        exact = F.group_norm(frames.double().contiguous(), 4, eps=1e-6)
        for fused in (True, False):
            switches = VaeSwitches().changed("fused_norm", fused)
            flow = SliceContext(carry=Carry(), workspace=workspace, switches=switches)
            found = torch.empty_like(frames)
            norm.write(NormInput(frames), found, flow, silu=False)
            torch.testing.assert_close(found.double(), exact, rtol=0, atol=5e-5)


def test_a_frame_far_from_zero_is_normalised_exactly() -> None:
    vae32, vae64 = tiny_vae(dtype=torch.float32), tiny_vae()
    frames = 100 + random_frames(1, 8, 2, 16, 16).to(memory_format=torch.channels_last_3d)
    block32, block64 = (vae.encoder.down_blocks[0].resnets[0] for vae in (vae32, vae64))
    result, wanted = block32.norm1(frames.float()), block64.norm1(frames.float().double())
    torch.testing.assert_close(result.double(), wanted, rtol=0, atol=1e-4)
