"""New videos in the watched folder: complete, not our results, and not taken before.

A video is taken once its size and time were the same at two looks in a row and it can be opened. It
is known by its content from then on, and kept over restarts. Pictures are left alone: of those that
a program writes, one after the other, nothing tells which is the last.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import stat
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from app import desktop
from app.jobs.found_files import films_in
from engine.core.file_access import content_mark
from engine.core.serialization import from_plain, parse_json, to_plain

_log = logging.getLogger(__name__)
# What programs add to the name of a file that is not whole yet; some next to one of the final name.
_UNFINISHED = (".part", ".partial", ".crdownload", ".download", ".tmp", ".aria2")
_HIDDEN = stat.FILE_ATTRIBUTE_HIDDEN | stat.FILE_ATTRIBUTE_TEMPORARY | stat.FILE_ATTRIBUTE_SYSTEM
State = tuple[int, int]  # bytes, time of the last change in ns


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFilm:
    """A video that was taken, or is a result of ours; `mark` is its `content_mark`."""

    path: str
    bytes: int
    modified_ns: int
    mark: str


class WatchedFilms:
    """Knowledge of videos in folders that are, or were, watched; for one thread at a time.

    Args:
        record: File of it, a line for each video.
    """

    def __init__(self, record: Path) -> None:
        self._record = record
        self._known: dict[str, KnownFilm] = {}  # by path
        self._marks: set[str] = set()
        self._unwritten: list[KnownFilm] = []
        self._is_read = False
        self._before: dict[Path, State] = {}  # at the last look

    def look(self, folder: Path, queued: Collection[Path], pattern: str, most: int) -> list[Path]:
        """Films to take now; they are known from here on, and written down at the next look.

        The queue has been kept by then: a video is in one of the two after a crash.

        Args:
            folder: To look through, with the folders in it.
            queued: Sources of the queue.
            pattern: Pattern of the names of results.
            most: Number of videos; the rest follows at later looks.

        Raises:
            OSError: The folder has gone, or it or the record cannot be read.
        """
        from engine import api  # loaded by then

        self._read()
        self._write()
        os.scandir(folder).close()
        if not most:
            return []
        films = films_in(folder, api.job_folders())
        states = {path: state for path in films if (state := _state(path)) is not None}
        before, self._before = self._before, states
        settled = [path for path, state in states.items() if before.get(path) == state]
        unknown = [path for path in settled if not self._knows(path, states[path])]
        if not unknown:
            return []
        stems, results = {path.stem for path in films}, api.made_results()
        found: list[Path] = []
        for path, mark in _marked(unknown):
            is_ours = mark in results or _is_named_as_result(path, stems, pattern)
            if not is_ours and mark not in self._marks and path not in queued:
                found.append(path)
            self._note(path, states[path], mark)
            if len(found) == most:
                break
        return found

    def _read(self) -> None:
        if self._is_read:
            return
        with contextlib.suppress(FileNotFoundError):
            for line in self._record.read_text("ascii", "replace").splitlines():
                with contextlib.suppress(ValueError, TypeError, KeyError):  # torn by a crash
                    self._add(from_plain(KnownFilm, parse_json(line)))
        self._is_read = True

    def _write(self) -> None:
        """Write down what has become known, where the disk permits."""
        lines = "".join(f"\n{json.dumps(to_plain(film))}" for film in self._unwritten)
        try:
            if lines:
                self._record.parent.mkdir(parents=True, exist_ok=True)
                with self._record.open("a", encoding="ascii") as file:
                    file.write(lines)
                self._unwritten.clear()
        except OSError as err:
            _log.warning("the list of seen videos in the watched folder cannot be saved: %s", err)

    def _add(self, film: KnownFilm) -> None:
        self._known[film.path] = film
        self._marks.add(film.mark)

    def _knows(self, path: Path, state: State) -> bool:
        known = self._known.get(str(path))
        return known is not None and (known.bytes, known.modified_ns) == state

    def _note(self, path: Path, state: State, mark: str) -> None:
        film = KnownFilm(path=str(path), bytes=state[0], modified_ns=state[1], mark=mark)
        self._add(film)
        self._unwritten.append(film)


def _state(path: Path) -> State | None:
    """Bytes and time of a file; None where it is empty, hidden, or has gone."""
    try:
        about = path.stat()
    except OSError:
        return None
    is_hidden = getattr(about, "st_file_attributes", 0) & _HIDDEN
    return (about.st_size, about.st_mtime_ns) if about.st_size and not is_hidden else None


def _is_named_as_result(path: Path, stems: Collection[str], pattern: str) -> bool:
    """Whether a video is named as the result of another one here: of another machine, or old."""
    from engine.api import source_stem

    return not {source_stem(path.stem, pattern), source_stem(path.stem)}.isdisjoint(stems)


def _marked(films: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    """Films that are whole, with their marks; those that cannot be opened yet are left out."""
    for path in films:
        try:
            if _is_whole(path):
                yield path, content_mark(path)
        except OSError as err:
            _log.info("%s cannot be opened yet: %s", path.name, err)


def _is_whole(path: Path) -> bool:
    """Whether no program is at a file that did not change between two looks."""
    if path.stem.lower().endswith(_UNFINISHED):  # "upreel-1a2b.part.mp4"
        return False
    if any(path.with_name(path.name + ending).exists() for ending in _UNFINISHED):
        return False
    return not desktop.is_being_written(path)
