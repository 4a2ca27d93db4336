"""Names and choices of settings as people read them; the schema says everything else."""

from __future__ import annotations

from app.i18n import mark, tr
from engine.settings import schema

NAMES = {
    "model": mark("Engine"),
    "scale": mark("Factor"),
    "height": mark("Height"),
    "width": mark("Width"),
    "form": mark("Treatment"),
    "device": mark("Runs on"),
    "tile": mark("Tile"),
    "overlap": mark("Tile overlap"),
    "codec": mark("Codec"),
    "encoder": mark("Encoder"),
    "crf": mark("Quality"),
    "speed": mark("Encoder speed"),
    "bit_depth": mark("Bit depth"),
    "chroma": mark("Colour resolution"),
    "container": mark("Kind of file"),
    "start": mark("Begin at"),
    "stop": mark("End before"),
    "segment_seconds": mark("Length of pieces"),
    "precision": mark("Precision"),
    "strength": mark("Strength"),
    "seed": mark("Seed"),
    "colour": mark("Colours"),
    "clip_frames": mark("Clip length"),
    "join": mark("Joined as"),
    "join_frames": mark("Shared frames"),
    "shots": mark("Cuts"),
    "shot_sensitivity": mark("Sensitivity to cuts"),
    "padding": mark("Padding"),
    "input_noise": mark("Noise on frames"),
    "latent_noise": mark("Noise on latents"),
    "noise_order": mark("Order of noise"),
    "attention": mark("Attention"),
    "products": mark("Matrix products"),
    "blocks_on_device": mark("Blocks on the card"),
    "encode_tile": mark("Tile when encoding"),
    "decode_tile": mark("Tile when decoding"),
    "vae_precision": mark("Precision of the VAE"),
    "dit": mark("Transformer"),
    "vae": "VAE",
    "text_embedding": mark("Text embedding"),
    "latents": mark("Numbers"),
    "latent_rate": mark("Frame rate"),
    "latent_vae": "VAE",
    "switches": mark("Optimisations"),
    "overwrite": mark("Replace existing file"),
    "accept_damaged": mark("Accept damaged film"),
    "threads": mark("Processor threads"),
    "memory_share": mark("Share of free memory"),
    "preserve_vram": mark("Give memory back"),
    "tile_previews": mark("Pictures of tiles"),
}
CHOICES = {
    "auto": mark("Automatic"),
    "lite": mark("Lite · built in"),
    "seedvr2-3b": "SeedVR2 3B",
    "seedvr2-7b": "SeedVR2 7B",
    "seedvr2-7b-sharp": mark("SeedVR2 7B sharp"),
    "wan-2x": "Wan 2x",
    "none": mark("None"),
    "faithful": mark("Faithful"),
    "restore": mark("Restore"),
    "cpu": mark("Processor"),
    "cuda": mark("NVIDIA card"),
    "nvenc": mark("NVIDIA card"),
    "fast": mark("Fast"),
    "medium": mark("Medium"),
    "slow": mark("Slow"),
    "h264": "H.264",
    "hevc": "HEVC",
    "av1": "AV1",
    "prores": "ProRes",
    "ffv1": "FFV1",
    "mp4": "MP4",
    "mkv": "MKV",
    "mov": "MOV",
    "420": "4:2:0",
    "422": "4:2:2",
    "444": "4:4:4",
    "fp16": "FP16",
    "fp8": "FP8",
    "q8": "Q8",
    "q4": "Q4",
    "int8": "INT8",
    "float16": "FP16",
    "bfloat16": "BF16",
    "float32": "FP32",
    "nvfp4": "NVFP4",
    "two-scale": mark("Two scales"),
    "lab": "Lab",
    "wavelet": "Wavelet",
    "wavelet_adaptive": mark("Wavelet, adaptive"),
    "hsv": "HSV",
    "adain": "AdaIN",
    "latents": mark("Latents"),
    "frames": mark("Frames"),
    "off": mark("Off"),
    "reflect": mark("Reflected"),
    "black": mark("Black"),
    "per-latent": mark("Once for a shot"),
    "reference": mark("As the reference"),
    "sdpa": "SDPA",
    "cudnn": "cuDNN",
    "efficient": mark("Memory-efficient"),
    "flash": "Flash (torch)",
    "math": mark("Plain"),
    "flash2": "Flash 2",
    "flash3": "Flash 3",
    "sage2": "Sage 2",
    "sage2-fp16": "Sage 2 FP16",
    "sage2-fp8": "Sage 2 FP8",
    "sage3-fp4": "Sage 3 FP4",
    "sage3-fp4-fast": "Sage 3 FP4 fast",
    "xformers": "xFormers",
    "raw": mark("As they are"),
    "normalised": mark("Normalised"),
}
_MEANS_ELSE = {  # where a value says something else under one setting
    ("model", "none"): mark("None · same picture"),
    ("colour", "none"): mark("As the model gives them"),
    ("products", "none"): mark("Exact"),
    ("join", "none"): mark("Not joined"),
}
UNITS = {"frames": mark("frames"), "frames/s": mark("frames/s")}
LATENTS = "latents"  # the family of a source, beside that of a model
_CANNOT = {  # what a model cannot do, said where it is chosen
    "wan-2x": mark(
        "Trained on still photographs: weaker on anime, lines and text, and not steadied over "
        "time. Makes twice the size; other sizes are resized afterwards."
    ),
}


def name_of(setting: str) -> str:
    """The name of a setting in the current language."""
    return tr(NAMES.get(setting, setting.replace("_", " ").capitalize()))


def choice_of(value: str, setting: str = "") -> str:
    """A value in the current language; codec names are the same everywhere."""
    text = _MEANS_ELSE.get((setting, value)) or CHOICES.get(value)
    return tr(text) if text is not None else value


def family_of(model: str) -> str:
    """The family of models whose settings count: "lite", "seedvr2", "wan", or "" for none."""
    if model in schema.SEEDVR2:
        return "seedvr2"
    if model in schema.WAN_UPSCALERS:
        return "wan"
    return "lite" if model == "lite" else ""


def limits_of(model: str) -> str:
    """What a model cannot do, in a sentence or two; "" where nothing has to be said."""
    return tr(_CANNOT[model]) if model in _CANNOT else ""


def unit_of(unit: str) -> str:
    """A unit as it stands behind a number."""
    if unit == "x":
        return "×"
    return tr(UNITS[unit]) if unit in UNITS else unit


def quality_of(crf: int) -> str:
    """A CRF in words."""
    if crf == 0:
        return tr("Lossless or nearly")
    if crf <= 14:
        return tr("Very high")
    if crf <= 18:
        return tr("High")
    if crf <= 23:
        return tr("Good")
    if crf <= 30:
        return tr("Small file")
    return tr("Very small file")


def strength_of(percent: int) -> str:
    """What a strength does, honestly."""
    if percent == 0:
        return tr("Only resized")
    if percent <= 40:
        return tr("Close to the source")
    if percent <= 75:
        return tr("Half and half")
    if percent < 100:
        return tr("Mostly redrawn")
    return tr("All redrawn")
