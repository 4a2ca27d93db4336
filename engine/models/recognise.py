"""Which model a file holds, by names and shapes of its tensors: for clear refusals. No torch."""

from __future__ import annotations

from collections.abc import Mapping

Shapes = Mapping[str, tuple[int, ...]]

SEEDVR2_VAE = "a SeedVR2 VAE"
SEEDVR2_TRANSFORMERS = ("a SeedVR2 transformer (3B)", "a SeedVR2 transformer (7B)")
REPACKAGED = "a repackaged SeedVR2 transformer"  # under names whose meaning nobody published

# What ComfyUI's model keeps beside the published tensors; nothing else of its files is known.
_CONDITIONING = {"positive_conditioning", "negative_conditioning"}
_PREFIX = "model.diffusion_model."  # some tools put it before the names of a transformer


def recognise(shapes: Shapes) -> str:
    """What the tensors look like, in words ("a SeedVR2 VAE"); "" when nothing here knows them."""
    names = {name.removeprefix(_PREFIX) for name in shapes}
    if any(".attn.proj_qkv." in name for name in names):
        return _seedvr2_transformer(names)
    if any(name.startswith(("decoder.upsamples.", "encoder.downsamples.")) for name in names):
        return "a Wan VAE"
    if any(name.startswith(("encoder.down_blocks.", "decoder.up_blocks.")) for name in names):
        return SEEDVR2_VAE if _has_time_axis(shapes) else "a VAE for single pictures"
    if any(name.startswith(("first_stage_model.", "encoder.down.")) for name in names):
        return "a VAE for single pictures"
    if names and all(name.startswith("convolutions.") for name in names):
        return "Lite"
    if len(shapes) == 1 and all(len(shape) in (2, 3) for shape in shapes.values()):
        return "a text embedding"
    return ""


def _seedvr2_transformer(names: set[str]) -> str:
    """Only the 3B kind shares weights between picture and text (".all.")."""
    if not any(name.startswith("blocks.") for name in names) or _CONDITIONING & names:
        return REPACKAGED
    return SEEDVR2_TRANSFORMERS[not any(".proj_qkv.all." in name for name in names)]


def _has_time_axis(shapes: Shapes) -> bool:
    kernels = [len(shape) for shape in shapes.values() if len(shape) > 3]
    return kernels.count(5) >= kernels.count(4)
