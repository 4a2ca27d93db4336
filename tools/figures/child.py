"""Processes that are measured: fresh, with compiled Python files, away from the user's data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

_PATIENCE_S = 300.0


class FigureFailed(Exception):
    """A measurement ended without its figure."""


@dataclass(frozen=True, slots=True)
class Children:
    """Starts processes of one tree in one temporary folder.

    Attributes:
        root: Folder of the tree.
        folder: For files of the measurements; the processes keep their own data below it.
        bytecode: For compiled Python files; trees share those of packages.
    """

    root: Path
    folder: Path
    bytecode: Path

    def with_new_data(self) -> Children:
        """Processes that find no data of earlier ones, such as a queue to go on with."""
        return replace(self, folder=Path(tempfile.mkdtemp(dir=self.folder)))

    def run(self, *arguments: str, accepts: tuple[int, ...] = (0,)) -> list[Any]:
        """Run this Python with arguments; what it wrote, line by line, where it is JSON.

        Raises:
            FigureFailed: Another exit status, or it did not end.
        """
        try:
            done = subprocess.run(
                [sys.executable, *arguments],
                cwd=self.root,
                env=self._environment(),
                capture_output=True,
                text=True,
                encoding="utf-8",
                timeout=_PATIENCE_S,
                check=False,
            )
        except subprocess.TimeoutExpired as err:
            raise FigureFailed(f"{' '.join(arguments)} did not end.") from err
        if done.returncode not in accepts:
            last = done.stderr.strip().splitlines()[-1:]
            raise FigureFailed(f"{' '.join(arguments)}: {' '.join(last)}")
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    def figures(self, *arguments: str) -> dict[str, float]:
        """The last line of a process as names and figures.

        Raises:
            FigureFailed: As `run`, or it wrote nothing.
        """
        lines = self.run(*arguments)
        if not lines:
            raise FigureFailed(f"{' '.join(arguments)} wrote nothing.")
        found: dict[str, float] = lines[-1]
        return found

    def _environment(self) -> Mapping[str, str]:
        """Nothing of the user's settings; the same hashes of texts each time."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("UPREEL")}
        kept.pop("PYTHONDONTWRITEBYTECODE", None)
        return kept | {
            "PYTHONPYCACHEPREFIX": str(self.bytecode),
            "PYTHONPATH": str(self.root),
            "PYTHONIOENCODING": "utf-8",
            "PYTHONHASHSEED": "0",
            "QT_QPA_PLATFORM": os.environ.get("QT_QPA_PLATFORM", "offscreen"),
            "UPREEL_DATA": str(self.folder / "data"),
            "UPREEL_CACHE": str(self.folder / "cache"),
            "UPREEL_MODELS": str(self.folder / "models"),
            "XDG_VIDEOS_DIR": str(self.folder),
        }


@contextmanager
def children(*roots: Path) -> Iterator[list[Children]]:
    """Processes of each tree, with folders that go afterwards."""
    with tempfile.TemporaryDirectory(prefix="upreel-figures-", ignore_cleanup_errors=True) as name:
        found = [
            Children(root, Path(name, str(n)), Path(name, "bytecode"))
            for n, root in enumerate(roots)
        ]
        for one in found:
            one.folder.mkdir()
        yield found


def report(figures: Mapping[str, float]) -> None:
    """Hand figures of a child to the parent."""
    sys.stdout.write(json.dumps(dict(figures)) + "\n")
    sys.stdout.flush()


def cpu_seconds(work: Callable[[], object], *, at_least: float = 0.0) -> float:
    """CPU seconds of one call, of all threads of this process.

    Args:
        work: Function that is timed.
        at_least: Seconds; short work is called until they have passed, and their mean counts.
    """
    begin, calls, spent = time.process_time(), 0, 0.0
    while not calls or spent < at_least:
        work()
        calls += 1
        spent = time.process_time() - begin
    return spent / calls
