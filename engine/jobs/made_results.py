"""Which results Upreel has made for this user: a line for each, by its content.

Results go next to their sources, so a folder that is watched, or added again, holds both. Window
and command line write a result down before it gets its name, so that it is never taken for a
source.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from engine.core import paths
from engine.core.file_access import content_mark, is_folder
from engine.video.write.containers import IMAGE_SUFFIXES

logger = logging.getLogger(__name__)

_MOST_BYTES = 2**20  # that are read: about 13,000 results, the latest


def note(result: Path) -> None:
    """Write a finished file down; one that cannot be is logged, and the job goes on."""
    try:
        record = _record()
        record.parent.mkdir(parents=True, exist_ok=True)
        with record.open("a", encoding="ascii") as file:
            file.write(f"{content_mark(_known_by(result))}\n")
    except OSError as err:
        logger.warning("%s could not be recorded as a result: %s", result.name, err)


def mark_of(result: Path) -> str:
    """The `content_mark` of a finished file; "" of pictures, and where it cannot be read."""
    try:
        return "" if is_folder(result) else content_mark(result)
    except OSError:
        return ""


def marks() -> frozenset[str]:
    """The `content_mark` of every result; empty where the record cannot be read."""
    try:
        with _record().open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _MOST_BYTES))
            return frozenset(file.read().decode("ascii", "replace").split())
    except FileNotFoundError:
        return frozenset()
    except OSError as err:
        logger.warning("earlier results are unknown: %s", err)
        return frozenset()


def among(candidates: Iterable[Path]) -> frozenset[Path]:
    """Files and folders of images that are results; reads only files of the size of a result."""
    known = marks()
    sizes = {mark.partition("-")[0] for mark in known}
    found = set()
    for candidate in candidates if known else ():
        with suppress(OSError):
            file = _known_by(candidate)
            if str(file.stat().st_size) in sizes and content_mark(file) in known:
                found.add(candidate)
    return frozenset(found)


def _known_by(result: Path) -> Path:
    """The file whose content identifies a result: the first image where it is a folder."""
    if not is_folder(result):
        return result
    images = (file for file in result.iterdir() if file.suffix.lower() in IMAGE_SUFFIXES)
    return min(images, key=lambda image: image.name, default=result)


def _record() -> Path:
    return paths.data_folder() / "results.txt"
