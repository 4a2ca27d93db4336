"""Identification of a weights file by names and shapes of its tensors, without torch."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from engine.core.errors import WrongModel
from engine.core.messages import Message, message
from engine.models.shapes import Shapes

SEEDVR2_VAE = "seedvr2-vae"
SEEDVR2_TRANSFORMERS = ("seedvr2-3b", "seedvr2-7b")
REPACKAGED = "seedvr2-repackaged"  # under names whose meaning was not published
WAN21_VAE, WAN22_VAE, WAN2X_VAE = "wan21-vae", "wan22-vae", "wan-2x-vae"
WAN_VAES = (WAN21_VAE, WAN22_VAE, WAN2X_VAE)
PICTURE_VAE = "picture-vae"
TEXT_EMBEDDING = "text-embedding"
LITE = "lite"
SWIFTVR_VAE, SWIFTVR_TRANSFORMER = "swiftvr-vae", "swiftvr-transformer"
SWIFTVR_PROMPT = "swiftvr-prompt"

_TRANSFORMER = "model.diffusion_model."  # prefix that some tools give a transformer's tensors
_VAE = r"^((model|vae|first_stage_model)\.)+"  # prefixes of a VAE's tensors
_WAN_PARTS = ("encoder.downsamples.", "decoder.upsamples.")
_DIFFUSERS_PARTS = ("encoder.down_blocks.", "decoder.up_blocks.")
_WAN22_PART = r"(down|up)samples\.\d+\.(down|up)samples\.|\.(down|up)sampler\."
_WAN_HEADS = ("decoder.head.2.weight", "decoder.conv_out.weight")
_SWIFTVR_VAE_PART = re.compile(r"(en|de)coder\.\d+\.conv\.[024]\.(weight|bias)")
_SHUFFLED = 12  # output channels of a head with a 2x result: 3 * 2 * 2, for pixel shuffle


def recognise(shapes: Shapes) -> str:
    """The model that the tensors belong to, as one of the names above; "" if unknown."""
    names = {name.removeprefix(_TRANSFORMER) for name in shapes}
    if any(".attn.proj_qkv." in name for name in names):
        return _seedvr2_transformer(names)
    if any(".attn1.to_q." in name for name in names):
        return SWIFTVR_TRANSFORMER  # that of Wan 2.2 5B, which it was trained from, has its names
    if "prompt_emb" in names:
        return SWIFTVR_PROMPT
    vae = _vae({re.sub(_VAE, "", name): shape for name, shape in shapes.items()})
    if vae:
        return vae
    if names and all(name.startswith("convolutions.") for name in names):
        return LITE
    if len(shapes) == 1 and all(len(shape) in (2, 3) for shape in shapes.values()):
        return TEXT_EMBEDDING
    return ""


def content_message(content: str) -> Message:
    """A result of `recognise` for a user: "a SeedVR2 VAE"."""
    return message(f"content.{content or 'unknown'}")


def other_model(case: str, path: Path, content: str) -> WrongModel:
    """Error of a file that holds another model.

    Args:
        case: Case of the message, which names the wanted model.
        path: The file.
        content: Result of `recognise`.
    """
    return WrongModel(case, name=path.name, path=str(path), content=content_message(content))


def _seedvr2_transformer(names: Collection[str]) -> str:
    """Name by layout: only the 3B model shares weights between video and text (".all.")."""
    if not any(name.startswith("blocks.") for name in names):
        return REPACKAGED
    return SEEDVR2_TRANSFORMERS[not any(".proj_qkv.all." in name for name in names)]


def _vae(shapes: Shapes) -> str:
    """Kind of a VAE by names without a prefix; in diffusers all VAEs have the same parts."""
    if any(name.startswith(_WAN_PARTS) for name in shapes):
        return _wan(shapes)
    if any(name.startswith(_DIFFUSERS_PARTS) for name in shapes):
        if any(name.endswith(".gamma") for name in shapes):
            return _wan(shapes)
        return SEEDVR2_VAE if _has_time_axis(shapes) else PICTURE_VAE
    if any(name.startswith(("encoder.down.", "decoder.up.")) for name in shapes):
        return PICTURE_VAE
    return SWIFTVR_VAE if any(map(_SWIFTVR_VAE_PART.fullmatch, shapes)) else ""


def _wan(shapes: Shapes) -> str:
    """Kind of a Wan VAE: 2.2 and 2x have a head of 12 channels; 2.2 also has nested levels."""
    if any(re.search(_WAN22_PART, name) for name in shapes):
        return WAN22_VAE
    heads = [shapes[name][:1] for name in _WAN_HEADS if name in shapes]
    return WAN2X_VAE if heads == [(_SHUFFLED,)] else WAN21_VAE


def _has_time_axis(shapes: Shapes) -> bool:
    kernels = [len(shape) for shape in shapes.values() if len(shape) > 3]
    return kernels.count(5) >= kernels.count(4)
