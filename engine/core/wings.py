"""Wings: parts of the engine that a job does not need. They import the core and register here.

The core never imports a wing by its name: without its folder the commands of a wing do not exist,
and everything else works. Loads without torch.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

# Each is a folder in `engine` with a module `wing`, which defines WING.
NAMES = ("delivery", "farm", "bench")


class Wing:
    """Base class of wings: a wing overrides the methods where it adds something."""

    def add_commands(self, add: Callable[..., Any]) -> None:
        """Add commands to the command line.

        Args:
            add: Takes name, function and help of a command; returns its parser.
        """

    def services(self, host: Any) -> tuple[Any, ...]:
        """Services that answer commands of the engine thread.

        Args:
            host: An `engine.jobs.services.ServiceHost`.

        Returns:
            Each an `engine.jobs.services.Service`.
        """
        return ()

    def tidy(self) -> None:
        """Do work that can wait, such as deleting needless files, once the engine is ready."""

    def start_update(self) -> Path | None:
        """Start the downloaded setup of a newer version, and return it; None without updates."""
        return None

    def other_computers(self) -> Any:
        """Other computers that can join a job.

        Returns:
            An `engine.planner.joining.OtherComputers`; None if this wing knows none.
        """
        return None

    def hand_out(self, port: int) -> Any:
        """Let other computers join a job.

        Args:
            port: Port of this computer at which they can be accepted.

        Returns:
            An `engine.pipeline.context.HandOut`; None if this wing knows no other computers.
        """
        return None

    def private_names(self) -> Iterable[str]:
        """Names and addresses that no report of a fault may show."""
        return ()


@cache
def wings() -> tuple[Wing, ...]:
    """Installed wings."""
    found: list[Wing] = []
    for name in NAMES:
        module = f"engine.{name}.wing"
        try:
            found.append(importlib.import_module(module).WING)
        except ModuleNotFoundError as err:
            if err.name not in (f"engine.{name}", module):
                raise  # the wing is installed, but something that it needs is missing
    return tuple(found)
