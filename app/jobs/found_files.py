"""Ways of files into the window: dialogs, drops, and folders searched in another thread."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PySide6.QtCore import QMimeData, QObject, QRunnable, QThreadPool, Signal
from PySide6.QtWidgets import QFileDialog, QWidget

from app.i18n import mark, tr
from app.jobs.file_suffixes import (
    LATENT_ENDINGS,
    MODEL_ENDINGS,
    PICTURE_ENDINGS,
    VIDEO_ENDINGS,
    WHEEL_ENDINGS,
)
from app.ui_state import UiState
from app.widgets.drop import local_paths
from engine.protocol.model_file_state import is_library

MOST_FILES = 2000  # of one folder; more is a slip, or a job for the command line
_FEWEST_NUMBERED = 3  # pictures that count as a video


def is_latent(path: Path) -> bool:
    """Whether a file is one of ComfyUI's latents, by its name."""
    return path.suffix.lower() in LATENT_ENDINGS


def is_wheel(path: Path) -> bool:
    """Whether a file could be of an NVIDIA runtime, by its name."""
    return path.suffix.lower() in WHEEL_ENDINGS and not is_library(path)


def is_model_file(path: Path) -> bool:
    """Whether a file could be of a model, or be a library that one needs, by its name."""
    return path.suffix.lower() in MODEL_ENDINGS or is_library(path)


@dataclass(slots=True)
class FoundFiles:
    """Content of a drop."""

    files: list[Path] = field(default_factory=list)  # to be added
    # Files of folders that are not, by the reason: a text of the window, English.
    skipped: dict[str, list[Path]] = field(default_factory=dict)
    empty: list[Path] = field(default_factory=list)  # folders of which nothing is added

    @property
    def is_whole(self) -> bool:
        """Whether every file was taken, and of every folder at least one."""
        return not self.skipped and not self.empty

    def skip(self, reason: str, files: Sequence[Path]) -> None:
        """Leave files out."""
        if files:
            self.skipped.setdefault(reason, []).extend(files)


def media_files(paths: Sequence[Path], queued: Collection[Path] = ()) -> FoundFiles:
    """Files as they are (the engine judges them), and of folders what looks like videos.

    A folder that holds only numbered pictures is one video: the folder itself. Results next to
    their sources are left out, those of a folder without sources are taken.

    Args:
        paths: Files and folders.
        queued: Sources that wait or run, which a folder does not add again.
    """
    found = FoundFiles()
    for path in paths:
        if path.is_dir():
            _look_through(path, found, queued)
        else:
            found.files.append(path)
    found.files = list(dict.fromkeys(found.files))
    return found


NO_MEDIA = mark("not a video or image: {count}")
PICTURES = mark("images in a folder of videos: {count}")
RESULTS = mark("results of Upreel: {count}")
QUEUED = mark("already in the queue: {count}")
TOO_MANY = mark("more than {most} in one folder: {count}")


_KINDS = (  # of dropped files by their names: endings, texts for one and for several
    (VIDEO_ENDINGS, mark("1 video"), mark("{count} videos")),
    (PICTURE_ENDINGS, mark("1 image"), mark("{count} images")),
    (LATENT_ENDINGS, mark("1 latent"), mark("{count} latents")),
    (MODEL_ENDINGS, mark("1 model file"), mark("{count} model files")),
    (WHEEL_ENDINGS, mark("1 runtime file"), mark("{count} runtime files")),
)
_MOST_LOOKS = 50  # at paths of no known ending, which may be folders of a slow drive


def drop_texts(paths: Sequence[Path]) -> tuple[str, str]:
    """Sentence about a drop of these paths, and lines with more, from their names alone.

    Some of the paths without a known ending are asked whether they are folders.
    """
    counts = [sum(p.suffix.lower() in endings for p in paths) for endings, _, _ in _KINDS]
    known = frozenset().union(*(endings for endings, _, _ in _KINDS))
    others = [path for path in paths if path.suffix.lower() not in known]
    folders = sum(path.is_dir() for path in others[:_MOST_LOOKS])
    unknown = len(others) - folders
    texts = [_counted(n, one, many) for n, (_, one, many) in zip(counts, _KINDS, strict=True) if n]
    if folders:
        texts.append(_counted(folders, mark("1 folder"), mark("{count} folders")))
    strange = _counted(
        unknown, mark("1 file of unknown type"), mark("{count} files of unknown type")
    )
    if not texts:
        return tr("Add {files}", files=strange), tr("Upreel tries to open it as a video or image.")
    *first, last = texts
    together = tr("{first} and {last}", first=tr(", ").join(first), last=last) if first else last
    searched = tr("Folders are searched with their subfolders.") if folders else ""
    more = tr("Also {files}", files=strange) if unknown else ""
    return tr("Add {files}", files=together), "\n".join(filter(None, (more, searched)))


def _counted(count: int, one: str, many: str) -> str:
    return tr(one) if count == 1 else tr(many, count=count)


def films_in(folder: Path, left_out: Collection[Path] = ()) -> list[Path]:
    """Films of a folder and of those in it, but for folders that are left out and their content."""
    return [
        path
        for _, here in _walk(folder, left_out)
        for path in here
        if path.suffix.lower() in VIDEO_ENDINGS
    ]


def _walk(folder: Path, left_out: Collection[Path] = ()) -> Iterator[tuple[Path, list[Path]]]:
    """Each folder with its files, in order, as far as they are in sight."""
    for where, folders, names in os.walk(folder):
        folders[:] = [
            name
            for name in sorted(folders)
            if _is_in_sight(name) and Path(where, name) not in left_out
        ]
        yield Path(where), [Path(where, name) for name in sorted(names) if _is_in_sight(name)]


def _is_in_sight(name: str) -> bool:
    return not name.startswith((".", "~$")) and name.upper() != "$RECYCLE.BIN"


def _look_through(folder: Path, found: FoundFiles, queued: Collection[Path]) -> None:
    from engine import api  # loaded by then

    videos: list[Path] = []
    pictures: list[Path] = []
    for where, here in _walk(folder):
        films = [p for p in here if p.suffix.lower() in VIDEO_ENDINGS | LATENT_ENDINGS]
        videos += films
        stills = [path for path in here if path.suffix.lower() in PICTURE_ENDINGS]
        pictures += [where] if _is_numbered(stills) else stills
        known = {*films, *stills}
        found.skip(NO_MEDIA, [path for path in here if path not in known])
        if len(videos) + len(pictures) > MOST_FILES:
            break
    made = api.results_among((*videos, *pictures))
    results = [path for path in (*videos, *pictures) if path in made]
    videos = [path for path in videos if path not in made]
    pictures = [path for path in pictures if path not in made]
    if videos or pictures:
        found.skip(RESULTS, results)
        found.skip(PICTURES, pictures if videos else [])
    sources = videos or pictures or results
    found.skip(QUEUED, [path for path in sources if path in queued])
    media = [path for path in sources if path not in queued]
    found.files += media[:MOST_FILES]
    found.skip(TOO_MANY, media[MOST_FILES:])
    if not sources:
        found.empty.append(folder)


def _is_numbered(stills: Sequence[Path]) -> bool:
    """True when the names differ in one number only, as frames written by a program do."""
    patterns = {re.sub(r"\d+(?=\D*$)", "#", path.name) for path in stills}
    return len(stills) >= _FEWEST_NUMBERED and len(patterns) == 1 and "#" in next(iter(patterns))


class FileFinder(QObject):
    """Looks through dropped folders without holding the window."""

    found = Signal(object)  # FoundFiles

    def look_through(self, paths: Sequence[Path], queued: Collection[Path] = ()) -> None:
        """Begin; `found` follows, at once when there is no folder among the paths.

        Args:
            paths: Files and folders.
            queued: Sources that a folder does not add again.
        """
        if not any(path.is_dir() for path in paths):
            self.found.emit(media_files(paths))
            return
        QThreadPool.globalInstance().start(_Search(self, tuple(paths), frozenset(queued)))


class _Search(QRunnable):
    def __init__(
        self, finder: FileFinder, paths: tuple[Path, ...], queued: frozenset[Path]
    ) -> None:
        super().__init__()
        self._finder, self._paths, self._queued = finder, paths, queued

    def run(self) -> None:
        found = media_files(self._paths, self._queued)
        self._finder.found.emit(found)  # Qt brings it to the window's thread


class Intake(QObject):
    """Asks for files and folders, remembers where they were, and hands them on."""

    def __init__(
        self, window: QWidget, add: Callable[[Sequence[Path]], None], ui_state: UiState
    ) -> None:
        super().__init__(window)
        self._window, self._add, self._ui_state = window, add, ui_state

    def ask_files(self) -> None:
        """Let the user choose files."""
        known = VIDEO_ENDINGS | PICTURE_ENDINGS | LATENT_ENDINGS
        endings = " ".join(f"*{ending}" for ending in sorted(known))
        chosen, _ = QFileDialog.getOpenFileNames(
            self._window,
            tr("Add videos or images"),
            str(self._ui_state.source_folder),
            f"{tr('Videos and images')} ({endings});;{tr('All files')} (*)",
        )
        self.take([Path(name) for name in chosen])

    def ask_folder(self) -> None:
        """Let the user choose a folder."""
        folder = str(self._ui_state.source_folder)
        chosen = QFileDialog.getExistingDirectory(self._window, tr("Add folder"), folder)
        self.take([Path(chosen)] if chosen else [])

    def take_drop(self, mime: QMimeData) -> None:
        """Add what was dropped."""
        self.take(local_paths(mime))

    def take(self, found: Sequence[Path]) -> None:
        """Add files and folders."""
        if found:
            self._ui_state.source_folder = found[0].parent
            self._add(found)
