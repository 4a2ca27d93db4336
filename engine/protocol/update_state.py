"""An update of the program as the window and the command line see it: plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

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
