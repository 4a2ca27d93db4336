"""Where a model file stands: its copies here and there, and what is left of one. Only looks."""

from __future__ import annotations

import contextlib
import dataclasses
import glob
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from engine.model_files import external_caches
from engine.model_files.hash_cache import Record
from engine.protocol.model_file_state import PublishedState, State

_RANKS: tuple[State, ...] = ("here", "unverified", "partial", "damaged", "missing")


@dataclasses.dataclass(frozen=True, slots=True)
class Shelf:
    """Our own folder, and the names that a file has in it."""

    folder: Path

    def target(self, filename: str) -> Path:
        """Where our own copy of a file lies."""
        return self.folder / filename

    def part(self, filename: str) -> Path:
        """Where our own copy grows until it is whole."""
        return self.folder / f"{filename}.part"

    def owns(self, path: Path) -> bool:
        """True for files in our own folder."""
        return path.parent == self.folder

    def rests(self, filename: str) -> Iterator[tuple[State, Path]]:
        """Begun and quarantined copies, the newest first."""
        if self.part(filename).is_file():
            yield "partial", self.part(filename)
        damaged = self.folder.glob(f"{glob.escape(filename)}.damaged-*")
        yield from (("damaged", path) for path in sorted(damaged, reverse=True))

    def leftovers(self, state: PublishedState) -> set[Path]:
        """Whatever of a file is ours."""
        if state.is_own:
            return {state.path} if state.path is not None and self.owns(state.path) else set()
        target = self.target(state.filename)
        rests = {path for _, path in self.rests(state.filename)}
        return rests | ({target} if target.is_file() else set())


def standing(
    shelf: Shelf, files: Iterable[PublishedState], records: Sequence[Record]
) -> list[PublishedState]:
    """How every published file stands, then every file of the user's own."""
    known = [_published(shelf, file, records) for file in files]
    own = [(record.own, record) for record in records if record.own is not None]
    return known + [_own(shelf, state, record) for state, record in own]


def _published(shelf: Shelf, file: PublishedState, records: Sequence[Record]) -> PublishedState:
    """Its best copy, else what is left of one."""
    copies = [_copy(shelf, file, path, records) for path in _paths(shelf, file, records)]
    rests = [
        dataclasses.replace(file, state=stands, path=path, done_bytes=_size(path))
        for stands, path in shelf.rests(file.filename)
    ]
    return min(copies + rests, key=lambda copy: _RANKS.index(copy.state), default=file)


def _paths(shelf: Shelf, file: PublishedState, records: Sequence[Record]) -> list[Path]:
    read = [r.path for r in records if r.own is None and r.sha256 == file.sha256]
    here = [path for path in (shelf.target(file.filename), *read) if path.is_file()]
    elsewhere = external_caches.borrowed(file)
    return list(dict.fromkeys([*here, *elsewhere]))


def _copy(
    shelf: Shelf, file: PublishedState, path: Path, records: Sequence[Record]
) -> PublishedState:
    size = _size(path)
    seen = next((r for r in records if r.path == path and r.holds()), None)
    stands: State = "unverified"
    if seen is not None:
        stands = "here" if seen.sha256 == file.sha256 else "damaged"
    elif file.bytes and size != file.bytes:
        stands = "damaged"
    borrowed = not shelf.owns(path)
    return dataclasses.replace(file, state=stands, path=path, done_bytes=size, borrowed=borrowed)


def _own(shelf: Shelf, state: PublishedState, record: Record) -> PublishedState:
    return _copy(shelf, state, record.path, (record,)) if record.path.is_file() else state


def is_whole(path: Path) -> bool:
    """True for a file under a name of its own, whatever is in it."""
    return path.suffix != ".part" and ".damaged-" not in path.name


def _size(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.stat().st_size
    return 0
