"""The weights files of Lite and Lite Plus, which come with the program. Loads no torch."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

from engine.core.errors import UnknownKeys, WeightsMissing
from engine.core.paths import resource
from engine.core.serialization import parse_json

KERNEL = 3
COLOURS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteConfig:
    """Sizes of one network; all convolutions are 3x3 and run at the size of the source.

    Attributes:
        scale: Factor of enlargement on each side, 2 or 4.
        channels: Width of the hidden layers.
        layers: Number of hidden layers between the first and the last one.
        frames: Frames it sees to make one: 1, or 3 with the ones before and after it.
    """

    scale: int
    channels: int = 32
    layers: int = 4
    frames: int = 1

    @property
    def receptive_radius(self) -> int:
        """Source px on each side that one source px of the result depends on."""
        return self.layers + 2

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every tensor of the network."""
        wanted: dict[str, tuple[int, ...]] = {}
        for index, (inner, outer) in enumerate(self.widths()):
            wanted[f"convolutions.{index}.weight"] = (outer, inner, KERNEL, KERNEL)
            wanted[f"convolutions.{index}.bias"] = (outer,)
        return wanted

    def widths(self) -> list[tuple[int, int]]:
        """Channels in and out of every convolution, first to last."""
        hidden = [(self.channels, self.channels)] * self.layers
        last = (self.channels, COLOURS * self.scale * self.scale)
        return [(COLOURS * self.frames, self.channels), *hidden, last]


def config_from_shapes(shapes: Mapping[str, tuple[int, ...]]) -> LiteConfig:
    """The configuration that has exactly these tensors.

    Raises:
        UnknownKeys: Tensors are missing, left over or misshapen; they are named.
    """
    depth = sum(1 for name in shapes if name.endswith(".weight"))
    first = shapes.get("convolutions.0.weight", (0, 0))
    last = shapes.get(f"convolutions.{depth - 1}.weight", (0,))
    scale = round((last[0] / COLOURS) ** 0.5)
    if depth < 2 or first[0] < 1 or scale not in (2, 4):
        raise UnknownKeys("not-lite", tensors=", ".join(sorted(shapes)[:8]))
    frames = 3 if first[1] == 3 * COLOURS else 1
    config = LiteConfig(scale=scale, channels=first[0], layers=depth - 2, frames=frames)
    check_shapes(config, shapes)
    return config


def check_shapes(config: LiteConfig, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Compare the tensors of a file with those the configuration needs.

    Raises:
        UnknownKeys: They differ; the message names every tensor.
    """
    wanted = config.shapes()
    faults = [f"{name} is missing" for name in sorted(wanted.keys() - shapes.keys())]
    faults += [f"{name} is unknown" for name in sorted(shapes.keys() - wanted.keys())]
    faults += [
        f"{name} is {list(shapes[name])} instead of {list(shape)}"
        for name, shape in wanted.items()
        if name in shapes and tuple(shapes[name]) != shape
    ]
    if faults:
        raise UnknownKeys("lite-tensors", faults="; ".join(faults))


MODELS = {"lite": "Lite", "lite-plus": "Lite Plus"}  # id -> title, the smaller one first
SCALES = (2, 4)  # factors they were trained for; others are reached by resizing
TREATMENTS = ("faithful", "restore")


class WeightsFile(NamedTuple):
    """Weights of a model for one factor and treatment."""

    model: str
    scale: int
    treatment: str

    @property
    def name(self) -> str:
        """Name of the file in resources/weights."""
        return f"{self.model.replace('-', '_')}_x{self.scale}_{self.treatment}.safetensors"


FILES = tuple(WeightsFile(*one) for one in product(MODELS, SCALES, TREATMENTS))


def weights_path(name: str) -> Path:
    """Path of a weights file.

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
            header = parse_json(file.read(min(length, 2**20)))
        header.pop("__metadata__", None)
        shapes = {name: tuple(about["shape"]) for name, about in header.items()}
    except (struct.error, ValueError, KeyError, AttributeError) as err:
        raise UnknownKeys("built-in-damaged", file=name) from err
    return config_from_shapes(shapes)
