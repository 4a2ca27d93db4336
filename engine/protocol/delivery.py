"""NVIDIA runtimes and updates as the window and the command line see them: plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from engine.core.messages import Message

State = Literal["missing", "partial", "here", "broken", "blocked", "busy"]
AppControl = Literal["", "off", "on", "evaluation"]
"""State of Windows' Smart App Control; "" where it is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeState:
    """One runtime of this build, or one that another version of the program installed.

    `state` "broken" is installed but not used, `why` is the reason. "blocked" is intact, but
    Windows refuses to load it; the hint of `why` is the remedy.
    """

    id: str  # "cu130"; the name of its folder where this build does not know it
    title: str
    torch: str  # "2.13.0+cu130"
    cuda: str  # "13.0"
    driver: str = ""  # the oldest that it runs with
    state: State = "missing"
    why: Message | None = None
    bytes: int = 0  # to download; 0 where this build does not know it
    disk_bytes: int = 0  # unpacked, about
    done_bytes: int = 0  # bytes on this machine: downloaded, or installed
    path: Path | None = None  # folder of the installed one
    suits_program: bool = True  # made for this Python and system
    suits_card: bool = False  # has code for the GPU, and its driver is new enough
    is_chosen: bool = False  # taken at the next start
    is_used: bool = False  # by this very process


Install = Literal["setup", "portable", "sources"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateState:
    """Known state of updates, without a request to the network.

    `newer` is "" where no newer version is known: none was looked for, or there is none.
    """

    version: str  # version of this program
    is_in_build: bool = False  # this build knows where updates are published
    installed_as: Install = "sources"  # only a copy that a setup installed is updated by one
    was_checked: bool = False  # since the program was started
    newer: str = ""
    date: str = ""  # date of the newer version, "2026-12-01"
    notes: dict[str, str] = field(default_factory=dict)  # Markdown by language
    setup: str = ""  # name of its file
    bytes: int = 0  # to download
    done_bytes: int = 0  # downloaded of it
    is_ready: bool = False  # downloaded, and verified
