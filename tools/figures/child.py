"""Processes that are measured: fresh, with compiled Python files, away from the user's data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_PATIENCE_S = 300.0


class FigureFailed(Exception):
    """A measurement ended without its figure."""


@dataclass(frozen=True, slots=True)
class Children:
    """Starts processes in one temporary folder.

    Attributes:
        folder: For files of the measurements; the processes keep their own data below it.
    """

    folder: Path

    def run(self, *arguments: str, accepts: tuple[int, ...] = (0,)) -> list[Any]:
        """Run this Python with arguments; what it wrote, line by line, where it is JSON.

        Raises:
            FigureFailed: Another exit status, or it did not end.
        """
        try:
            done = subprocess.run(
                [sys.executable, *arguments],
                cwd=ROOT,
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
            "PYTHONPYCACHEPREFIX": str(self.folder / "bytecode"),
            "PYTHONPATH": str(ROOT),
            "PYTHONIOENCODING": "utf-8",
            "PYTHONHASHSEED": "0",
            "QT_QPA_PLATFORM": os.environ.get("QT_QPA_PLATFORM", "offscreen"),
            "UPREEL_DATA": str(self.folder / "data"),
            "UPREEL_CACHE": str(self.folder / "cache"),
            "UPREEL_MODELS": str(self.folder / "models"),
            "XDG_VIDEOS_DIR": str(self.folder),
        }


@contextmanager
def children() -> Iterator[Children]:
    """Processes in a folder that goes afterwards."""
    with tempfile.TemporaryDirectory(prefix="upreel-figures-", ignore_cleanup_errors=True) as name:
        yield Children(Path(name))


def report(figures: Mapping[str, float]) -> None:
    """In a child: hand figures to the parent."""
    sys.stdout.write(json.dumps(dict(figures)) + "\n")
    sys.stdout.flush()
