"""Which results Upreel has made for this user: a line for each, by its content.

A folder that is watched for videos may be the one that results go to. Window and command line write
a result down before it gets its name, so that it is never taken for a video.
"""

from __future__ import annotations

import logging
from pathlib import Path

from engine.core import paths
from engine.core.file_access import content_mark, is_folder

logger = logging.getLogger(__name__)

_MOST_BYTES = 2**20  # that are read: about 13,000 results, the latest


def note(result: Path) -> None:
    """Write a finished file down; one that cannot be is logged, and the job goes on."""
    if is_folder(result):  # pictures: no video is a folder
        return
    try:
        record = _record()
        record.parent.mkdir(parents=True, exist_ok=True)
        with record.open("a", encoding="ascii") as file:
            file.write(f"{content_mark(result)}\n")
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


def _record() -> Path:
    return paths.data_folder() / "results.txt"
