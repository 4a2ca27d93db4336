"""Published model files and the state of each: plain data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.core.geometry import Size
from engine.core.messages import Message, message

Kind = Literal["dit", "vae", "text", "upscaler", "library"]
State = Literal["missing", "partial", "here", "unverified", "damaged", "busy"]
ImportMode = Literal["copy", "link"]
LIBRARIES = ("spandrel",)  # ids of files of that kind: Python packages, as wheels


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkFacts:
    """Statements of a network of one frame about itself."""

    architecture: str  # title, "RealESRGAN Compact"
    scale: int  # factor of both sides; 1 for networks that restore
    inputs: int = 3  # channels: 1 for grey, 3 for RGB, 4 for RGB with alpha
    outputs: int = 3
    least: int = 0  # smallest side of a frame, px; smaller ones are extended
    multiple: int = 1  # sides are extended to a multiple of it, px
    is_square: bool = False  # frames are extended to squares
    takes_half: bool = False  # it computes in float16
    dislikes_tiles: bool = False  # it looks at the whole frame, so tiles may differ in tone

    def extended(self, size: Size) -> Size:
        """Size of a frame as the network takes it."""
        width, height = (
            -(-max(side, self.least) // self.multiple) * self.multiple
            for side in (size.width, size.height)
        )
        return (
            Size(max(width, height), max(width, height)) if self.is_square else Size(width, height)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A further place where a file is published, perhaps under another name."""

    repository: str
    host: str = ""  # "": that of the file
    revision: str = "main"
    place: str = ""  # path in the repository; "" for the filename


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """Another format that a published file can be kept in."""

    format: str  # "bf16", "int8" ...
    bytes: int  # most bytes of the converted file


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedState:
    """One file of the catalogue, or a file of the user's own, and what of it is on this machine.

    `state` is "here" only while the file has the SHA-256 of the catalogue and was not touched
    since that was read; "unverified" is a whole file that was not read yet; "busy" is a file
    that a program is downloading, checking or importing right now.
    """

    id: str  # "seedvr2-3b-fp16"; a file of the user's own is "own-" and a part of its SHA-256
    title: str  # "SeedVR2 3B, fp16"
    kind: Kind
    models: tuple[str, ...]  # ids of the models that it serves
    precision: str  # "fp32", "fp16", "bf16", "16-bit" (either), "int8", "q4" ...; "" of libraries
    filename: str
    bytes: int = 0  # size of the whole file; 0 while unknown
    about_bytes: int = 0  # computed from the number of weights, where `bytes` is not known
    sha256: str = ""
    licence: str = ""  # "Apache-2.0"; "" where no one states it
    repository: str = ""  # "numz/SeedVR2_comfyUI"
    place: str = ""  # path in it; "" for the filename
    also: tuple[Copy, ...] = ()
    converts_to: tuple[Converted, ...] = ()  # formats that it can be kept in, the usual one first
    spare: bool = False  # listed only where it is on this machine: others are offered
    state: State = "missing"
    path: Path | None = None  # place of the file, also of a part of it or a damaged one
    done_bytes: int = 0  # bytes that are on this machine
    borrowed: bool = False  # it lies in a folder of ComfyUI, Hugging Face or the user: only read
    network: NetworkFacts | None = None  # facts of a community model

    @property
    def is_here(self) -> bool:
        """True when there is a whole file to use, checked or still to be checked."""
        return self.state in ("here", "unverified")

    @property
    def is_own(self) -> bool:
        """True for a file that the user brought and the catalogue does not know."""
        return not self.repository


def is_library(path: Path) -> bool:
    """Whether a file is a wheel of one of our libraries, of any version, by its name."""
    project = path.name.partition("-")[0].lower()
    return path.suffix.lower() == ".whl" and project in LIBRARIES


def facts_of(file: PublishedState) -> tuple[Message, ...]:
    """Statements of a community model about itself: size, channels, limits, dtype, licence."""
    network = file.network
    if network is None:
        return ()
    found = [
        message("network.scale", scale=network.scale)
        if network.scale > 1
        else message("network.restores")
    ]
    if (network.inputs, network.outputs) != (3, 3):
        found.append(message("network.channels", inputs=network.inputs, outputs=network.outputs))
    if network.is_square:
        found.append(message("network.square", multiple=network.multiple))
    elif network.least > 1 or network.multiple > 1:
        limits = {"least": max(1, network.least), "multiple": network.multiple}
        found.append(message("network.limits", **limits))
    found.append(message("network.half" if network.takes_half else "network.full"))
    licence = message("network.licence", licence=file.licence)
    return (*found, licence if file.licence else message("network.no-licence"))
