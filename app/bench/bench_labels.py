"""Texts for the figures of the speed test and for the machine."""

from __future__ import annotations

import re
from collections.abc import Mapping

from app.engine_messages import said
from app.i18n import mark, tr

_NAMES = {
    "read": mark("Reading a film"),
    "restore": mark("Converting colours"),
    "resize": mark("Resizing"),
    "start": mark("Beginning a job"),
    "check": mark("Checking a frame"),
    "verify": mark("Checking pictures"),
    "frame": mark("Handling a frame"),
}
_BEGINNINGS = {  # of names that go on with an encoder or a number format
    "open-": mark("Beginning a piece · {what}"),
    "decode-": mark("Reading back · {what}"),
    "vae-": mark("SeedVR2, encoding and decoding · {what}"),
    "transformer-": mark("SeedVR2, transformer · {what}"),
}
_CODECS = {
    "libx264": "H.264",
    "libx265": "HEVC",
    "libsvtav1": "AV1",
    "prores_ks": "ProRes",
    "ffv1": "FFV1",
    "png": "PNG",
    "tiff": "TIFF",
    "encoder": "NVENC",
    "h264_nvenc": "H.264 NVENC",
    "hevc_nvenc": "HEVC NVENC",
    "av1_nvenc": "AV1 NVENC",
}
_UNITS = {  # endings of figures
    "million pixels a second of the CPU": mark("{value} million px/s"),
    "million pixels a second of the card": mark("{value} million px/s"),
    "billion operations a second of the CPU": mark("{value} GFLOP/s"),
    "billion operations a second of the card": mark("{value} GFLOP/s"),
    "s a segment": mark("{value} s"),
    "s a frame": mark("{value} s"),
    "s a job": mark("{value} s"),
}
_LITE = re.compile(r"lite-(\d)-(\w+)")
_NOTHING = "none"


def name_of(figure: str) -> str:
    """What was measured, followed by the name of the GPU where it was measured on one."""
    name, comma, card = figure.partition(", ")
    if not comma:
        return _plain(figure)
    return f"{_plain(name)} · {card}"


def value_of(text: str) -> str:
    """A figure with its unit."""
    value, _, unit = text.partition(" ")
    return tr(_UNITS[unit], value=value) if unit in _UNITS else said(text)


def machine_of(machine: Mapping[str, str]) -> str:
    """The machine in one line, without missing parts."""
    parts = [machine.get("processor", "")]
    if "threads" in machine:
        parts.append(tr("{count} threads", count=machine["threads"]))
    parts += [machine.get(name, "") for name in ("memory", "card")]
    if machine.get("driver", _NOTHING) != _NOTHING:
        parts.append(tr("Driver {version}", version=machine["driver"]))
    if "torch" in machine:
        parts.append(f"torch {machine['torch'].removeprefix('torch ')}")
    return " · ".join(part for part in parts if part not in ("", _NOTHING))


def _plain(name: str) -> str:
    if name in _NAMES:
        return tr(_NAMES[name])
    if name in _CODECS:
        return tr("Writing {codec}", codec=_CODECS[name])
    lite = _LITE.fullmatch(name)
    if lite is not None:
        return f"Lite ×{lite[1]} · {lite[2]}"
    for beginning, text in _BEGINNINGS.items():
        if name.startswith(beginning):
            rest = name.removeprefix(beginning)
            return tr(text, what=_CODECS.get(rest, rest))
    return said(name)
