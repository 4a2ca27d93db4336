"""Names and choices of settings as people read them; the schema says everything else."""

from __future__ import annotations

from app.i18n import mark, tr

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
    "overwrite": mark("Replace existing file"),
    "accept_damaged": mark("Accept damaged film"),
    "threads": mark("Processor threads"),
    "memory_share": mark("Share of free memory"),
    "tile_previews": mark("Pictures of tiles"),
}
CHOICES = {
    "auto": mark("Automatic"),
    "lite": mark("Lite · built in"),
    "none": mark("None · same picture"),
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
}


def name_of(setting: str) -> str:
    """The name of a setting in the current language."""
    return tr(NAMES.get(setting, setting.replace("_", " ").capitalize()))


def choice_of(value: str) -> str:
    """A value in the current language; codec names are the same everywhere."""
    return tr(CHOICES[value]) if value in CHOICES else value


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
