"""Which model a file holds, by names and shapes of its tensors: for clear refusals. No torch."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

Shapes = Mapping[str, tuple[int, ...]]

SEEDVR2_VAE = "a SeedVR2 VAE"
SEEDVR2_TRANSFORMERS = ("a SeedVR2 transformer (3B)", "a SeedVR2 transformer (7B)")
REPACKAGED = "a repackaged SeedVR2 transformer"  # under names whose meaning nobody published
WAN21_VAE, WAN22_VAE, WAN2X_VAE = "a Wan 2.1 VAE", "a Wan 2.2 VAE", "a Wan 2x VAE"
WAN_VAES = (WAN21_VAE, WAN22_VAE, WAN2X_VAE)
PICTURE_VAE = "a VAE for single pictures"
TEXT_EMBEDDING = "a text embedding"

# What ComfyUI's model keeps beside the published tensors; nothing else of its files is known.
_CONDITIONING = {"positive_conditioning", "negative_conditioning"}
_TRANSFORMER = "model.diffusion_model."  # some tools put it before the names of a transformer
_VAE = r"^((model|vae|first_stage_model)\.)+"  # and these before the names of a VAE
_WAN_PARTS = ("encoder.downsamples.", "decoder.upsamples.")
_DIFFUSERS_PARTS = ("encoder.down_blocks.", "decoder.up_blocks.")
_WAN22_PART = r"(down|up)samples\.\d+\.(down|up)samples\.|\.(down|up)sampler\."
_WAN_HEADS = ("decoder.head.2.weight", "decoder.conv_out.weight")
_SHUFFLED = 12  # channels of a head whose result is twice as large


def recognise(shapes: Shapes) -> str:
    """What the tensors look like, in words ("a SeedVR2 VAE"); "" when nothing here knows them."""
    names = {name.removeprefix(_TRANSFORMER) for name in shapes}
    if any(".attn.proj_qkv." in name for name in names):
        return _seedvr2_transformer(names)
    vae = _vae({re.sub(_VAE, "", name): shape for name, shape in shapes.items()})
    if vae:
        return vae
    if names and all(name.startswith("convolutions.") for name in names):
        return "Lite"
    if len(shapes) == 1 and all(len(shape) in (2, 3) for shape in shapes.values()):
        return TEXT_EMBEDDING
    return ""


def _seedvr2_transformer(names: Collection[str]) -> str:
    """Only the 3B kind shares weights between picture and text (".all.")."""
    if not any(name.startswith("blocks.") for name in names) or not _CONDITIONING.isdisjoint(names):
        return REPACKAGED
    return SEEDVR2_TRANSFORMERS[not any(".proj_qkv.all." in name for name in names)]


def _vae(shapes: Shapes) -> str:
    """Of names without a prefix; diffusers calls the parts of all VAEs alike."""
    if any(name.startswith(_WAN_PARTS) for name in shapes):
        return _wan(shapes)
    if any(name.startswith(_DIFFUSERS_PARTS) for name in shapes):
        if any(name.endswith(".gamma") for name in shapes):
            return _wan(shapes)
        return SEEDVR2_VAE if _has_time_axis(shapes) else PICTURE_VAE
    if any(name.startswith(("encoder.down.", "decoder.up.")) for name in shapes):
        return PICTURE_VAE
    return ""


def _wan(shapes: Shapes) -> str:
    """Both 2.2 and 2x have a head of 12 channels; 2.2 has levels of parts."""
    if any(re.search(_WAN22_PART, name) for name in shapes):
        return WAN22_VAE
    heads = [shapes[name][:1] for name in _WAN_HEADS if name in shapes]
    return WAN2X_VAE if heads == [(_SHUFFLED,)] else WAN21_VAE


def _has_time_axis(shapes: Shapes) -> bool:
    kernels = [len(shape) for shape in shapes.values() if len(shape) > 3]
    return kernels.count(5) >= kernels.count(4)
