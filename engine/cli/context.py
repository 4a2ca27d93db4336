"""What every command gets: the console and the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.cli.console import Console

if TYPE_CHECKING:
    from engine.cli.services import ApiServices

DONE = 0
FAILED = 1
WRONG_USAGE = 2
CANCELLED = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """What every command gets; tests put a fake in the place of the services."""

    console: Console
    services: ApiServices
