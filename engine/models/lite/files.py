"""The weights files of Lite, which come with the program. Loads no torch."""

from __future__ import annotations

import hashlib
import json
import struct
from functools import cache
from pathlib import Path

from engine.core.errors import UnknownKeys, WeightsMissing
from engine.core.paths import resource
from engine.models.lite.config import LiteConfig, config_from_shapes

SCALES = (2, 4)  # factors it was trained for; others are reached by resizing
TREATMENTS = ("faithful", "restore")


def weights_name(scale: int, treatment: str) -> str:
    """File name of the weights for one factor and treatment."""
    return f"lite_x{scale}_{treatment}.safetensors"


def weights_path(name: str) -> Path:
    """Where a weights file lies.

    Raises:
        WeightsMissing: The program's own files are incomplete.
    """
    path = resource("weights", name)
    if not path.is_file():
        raise WeightsMissing("built-in", file=name)
    return path


@cache
def weights_sha256(name: str) -> str:
    """SHA-256 of a weights file: part of what a checkpoint depends on."""
    return hashlib.sha256(weights_path(name).read_bytes()).hexdigest() if name else ""


@cache
def config_of(name: str) -> LiteConfig:
    """The network of a weights file, by the names and shapes in its header.

    Raises:
        WeightsMissing: The file is not there.
        UnknownKeys: It is no safetensors file, or not of Lite.
    """
    try:
        with weights_path(name).open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(min(length, 2**20)))
        header.pop("__metadata__", None)
        shapes = {name: tuple(about["shape"]) for name, about in header.items()}
    except (struct.error, ValueError, KeyError, AttributeError) as err:
        raise UnknownKeys("built-in-damaged", file=name) from err
    return config_from_shapes(shapes)
