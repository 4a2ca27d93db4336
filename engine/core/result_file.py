"""Facts about this computer that were found out once, kept by key in a file."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from engine.core import atomic_file
from engine.core.paths import cache_folder
from engine.core.serialization import from_plain, read_json, set_aside


class ResultFile:
    """Results by key, in a file of the cache folder; a lost or damaged file has none.

    Args:
        name: Name of the file.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def path(self) -> Path:
        """Path of the file."""
        return cache_folder() / self._name

    def get(self, key: str) -> dict[str, Any]:
        """The entry of a key; {} where there is none."""
        entry = self._entries().get(key)
        return entry if isinstance(entry, dict) else {}

    def put(self, key: str, entry: dict[str, Any]) -> None:
        """Add an entry; a file that cannot be written stays as it is."""
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            atomic_file.write_json(self.path, self._entries() | {key: entry}, indent=1)

    def _entries(self) -> dict[str, Any]:
        with set_aside(self.path):
            return from_plain(dict[str, Any], read_json(self.path))
        return {}
