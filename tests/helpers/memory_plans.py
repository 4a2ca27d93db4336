"""Random plans of small models whose memory is measured, and the files that they name.

Models are small, but frames are large enough that their numbers outweigh those of weights, and
that torch convolves them as it does those of users.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

import torch
from safetensors.torch import save_file

from engine.core.geometry import Size
from engine.models.seedvr2.frame_layout import layout_of
from engine.models.seedvr2.plan import SeedVr2Plan
from engine.models.seedvr2.vae.config import VaeConfig
from engine.models.wan.plan import WanPlan
from engine.protocol.plan import WeightsPlan, WorkPlan
from engine.settings.optimisations import DitSwitches, VaeSwitches
from engine.settings.switches import Switches
from tests.helpers.tiny import tiny_vae
from tests.helpers.tiny_dit import tiny_dit_config, write_dit
from tests.helpers.tiny_wan import tiny_wan_config, write_wan

SEEDVR2_VAE = VaeConfig(
    block_out_channels=(16, 32, 64, 64), layers_per_block=1, norm_groups=8, latent_channels=16
)
TEXT_TOKENS = 58  # as published: plans count on it
_DITS: dict[str, dict[str, int]] = {
    "3b": {"separate_layers": 1, "mlp_hidden": 704, "rope_dim": 64},
    "7b": {"separate_layers": 3, "mlp_hidden": 1024, "rope_dim": 32},
}
_OFF = ("ring_buffers", "planned_buffers", "in_place", "fused_norm", "first_frame_fold")


@cache
def _folder() -> Path:
    return Path(mkdtemp(prefix="upreel-memory-"))


@cache
def _dit(kind: str) -> WeightsPlan:
    path = _folder() / f"{kind}.safetensors"
    write_dit(path, tiny_dit_config(kind, dim=256, heads=4, head_dim=64, layers=3, **_DITS[kind]))
    return planned_file(path)


@cache
def _seedvr2_vae() -> WeightsPlan:
    path = _folder() / "vae.safetensors"
    vae = tiny_vae(SEEDVR2_VAE, dtype=torch.float32)
    told = json.dumps({"norm_num_groups": SEEDVR2_VAE.norm_groups})
    tensors = {name: value.contiguous() for name, value in vae.state_dict().items()}
    save_file(tensors, path, {"config": told})
    return planned_file(path)


@cache
def _text() -> WeightsPlan:
    path = _folder() / "text.pt"
    torch.save(torch.zeros(TEXT_TOKENS, 24).bfloat16(), path)
    return planned_file(path)


@cache
def _wan() -> WeightsPlan:
    path = _folder() / "wan.safetensors"
    write_wan(path, tiny_wan_config("2x", dim=8, dec_dim=8))
    return planned_file(path)


def planned_file(path: Path) -> WeightsPlan:
    """A file as a plan names it."""
    about = path.stat()
    return WeightsPlan(path=path, bytes=about.st_size, modified_ns=about.st_mtime_ns)


def seedvr2_plan(kind: str = "3b", size: Size = Size(112, 96), **changes: Any) -> SeedVr2Plan:
    """A SeedVR2 plan with some fields changed."""
    layout = layout_of(size)
    parts: dict[str, Any] = {
        "dit": _dit(kind),
        "vae": _seedvr2_vae(),
        "text": _text(),
        "size": size,
        "padded": layout.padded,
        "reflected": layout.reflected,
        "clip": 3,
        "shared": 1,
    }
    return SeedVr2Plan(**{"model": f"seedvr2-{kind}", **parts, **changes})


def wan_plan(size: Size = Size(96, 80), **changes: Any) -> WanPlan:
    """A plan of Wan 2x with some fields changed."""
    padded = Size(-(-size.width // 8) * 8, -(-size.height // 8) * 8)
    return WanPlan(**{"vae": _wan(), "size": size, "padded": padded, **changes})


def random_seedvr2(seed: int) -> tuple[WorkPlan, int]:
    """A plan, and frames of a shot that is long enough for its steady state."""
    pick = Random(seed)
    size = pick.choice([Size(112, 96), Size(128, 80), Size(104, 120)])
    clip = max(3, pick.randint(2, 4))  # of fewer, scratch outweighs the tokens
    changes: dict[str, Any] = {
        "clip": clip,
        "shared": min(pick.randint(0, 2), (clip - 1) // 2),
        "vae_dtype": pick.choice(["float32", "float32", "bfloat16"]),
        "dtype": pick.choice(["float32", "bfloat16"]),
        "switches": _switches(pick),
        "strength": pick.choice([100, 100, 60]),
    }
    tiles = pick.choice(["none", "decode", "decode", "whole", "encode", "both"])
    frames = 21
    if tiles in ("decode", "both"):
        size = pick.choice([Size(192, 112), Size(128, 192)])
        changes["decode_tile"] = Size(160, 160)
    if tiles == "whole":
        size = pick.choice([Size(240, 96), Size(112, 232)])
        changes |= {"decode_tile": Size(208, 208), "decodes_whole_tiles": True}
    if tiles in ("encode", "both"):
        changes["encode_tile"] = Size(80, 80)
        frames = 65
    if tiles != "none":
        changes["warm_up"] = pick.choice([0, 0, 2, 4])
    if changes.get("warm_up"):
        frames = max(frames, 37)  # until tiles have as many latents behind them as they begin early
    return seedvr2_plan(pick.choice(["3b", "7b"]), size, **changes), frames


def random_wan(seed: int) -> tuple[WorkPlan, int]:
    """The same with Wan 2x."""
    pick = Random(seed)
    size = pick.choice([Size(160, 136), Size(176, 120), Size(128, 168)])
    changes: dict[str, Any] = {
        "dtype": pick.choice(["float32", "float32", "bfloat16"]),
        "clip_frames": pick.choice([4, 4, 8]),
        "switches": _switches(pick),
    }
    tiles = pick.choice(["none", "decode", "encode", "both"])
    if tiles in ("decode", "both"):
        changes["decode_tile"] = Size(224, 224)
    if tiles in ("encode", "both"):
        changes["encode_tile"] = Size(112, 112)
    if tiles != "none":
        changes |= pick.choice([{}, {"warm_up": 4}, {"parks": True}])
    return wan_plan(size, **changes), 29 if tiles == "none" else 61


def _switches(pick: Random) -> Switches:
    """The usual ones, or one of the VAE's turned off."""
    if pick.random() < 0.7:
        return Switches()
    vae = VaeSwitches().changed(pick.choice(_OFF), on=False)
    return Switches(vae=vae, dit=DitSwitches())
