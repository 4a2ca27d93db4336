"""Published model files and the state of each: plain data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["dit", "vae", "text"]
State = Literal["missing", "partial", "here", "unverified", "damaged", "busy"]
ImportMode = Literal["copy", "link"]


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
    precision: str  # "fp32", "fp16", "bf16", "16-bit" (either), "fp8", "q8", "q4"
    filename: str
    bytes: int = 0  # of the whole file; 0 while unknown
    about_bytes: int = 0  # computed from the number of weights, where `bytes` is not known
    sha256: str = ""
    licence: str = ""  # "Apache-2.0"; "" for a file of the user's own
    repository: str = ""  # "numz/SeedVR2_comfyUI"
    also: tuple[str, ...] = ()  # other repositories with the same file
    place: str = ""  # path in them; "" for the filename
    state: State = "missing"
    path: Path | None = None  # where it lies, also a part of it or a damaged one
    done_bytes: int = 0  # what is there of it
    borrowed: bool = (
        False  # external: lies in a folder of ComfyUI, Hugging Face or the user: only read
    )

    @property
    def is_here(self) -> bool:
        """True when there is a whole file to use, checked or still to be checked."""
        return self.state in ("here", "unverified")

    @property
    def is_own(self) -> bool:
        """True for a file that the user brought and the catalogue does not know."""
        return not self.repository
