"""Processes that a server with loaded libraries forks: each starts in milliseconds, not seconds.

For tests of what such processes do. How a program starts them, and that they load what they need,
is for tests that start them as the program does.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from typing import Any

_SERVER = multiprocessing.get_context("forkserver")


class Forks:
    """In the place of `OwnProcesses`.

    Args:
        loaded: Modules that the server loads, unless one runs.
    """

    def __init__(self, loaded: Sequence[str]) -> None:
        _SERVER.set_forkserver_preload(list(loaded))
        self.Pipe = _SERVER.Pipe

    def Process(
        self, *, target: Callable[..., None], args: tuple[Any, ...], name: str, daemon: bool
    ) -> BaseProcess:
        """A process with this one's environment, not with that of the server's start."""
        about = dict(os.environ), target, args
        return _SERVER.Process(target=_run, args=about, name=name, daemon=daemon)


def _run(environment: dict[str, str], target: Callable[..., None], args: tuple[Any, ...]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    target(*args)
