"""An NVIDIA runtime as the window and the command line see it: plain data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.core.messages import Message

State = Literal["not-in-build", "missing", "partial", "here", "broken", "busy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeState:
    """One runtime of this build, or one that another version of the program installed.

    `state` is "not-in-build" where this build of the program does not know size and SHA-256 of its
    files, and so takes none; "broken" is installed but not used, `why` says why.
    """

    id: str  # "cu130"; the name of its folder where this build does not know it
    title: str
    torch: str  # "2.13.0+cu130"
    cuda: str  # "13.0"
    driver: str = ""  # the oldest that it runs with
    state: State = "missing"
    why: Message | None = None
    bytes: int = 0  # to download; 0 while unknown
    about_bytes: int = 0
    disk_bytes: int = 0  # unpacked, about
    done_bytes: int = 0  # what is there of it: loaded, or installed
    path: Path | None = None  # where it is installed
    can_download: bool = False  # this build knows where it is published
    suits_program: bool = True  # made for this Python and system
    suits_card: bool = False  # has code for the card, and its driver is new enough
    is_chosen: bool = False  # taken at the next start
    is_used: bool = False  # by this very process
