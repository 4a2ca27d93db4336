"""Which sources were being read when the program died: one small file for each that is being read.

A library that crashes takes the whole program along, and no handler runs. What is left then is the
file of what was being read, with the number of times that this has happened.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Iterator
from pathlib import Path

from engine.core import paths
from engine.core.errors import SourceUnreadable

logger = logging.getLogger(__name__)

_MOST = 2  # times; after that a source is read only when the user asks for it
_WAYS = ("probe", "picture", "examination")


@contextlib.contextmanager
def being_read(source: Path, way: str) -> Iterator[None]:
    """Mark a source while it is read in one of `_WAYS`; the mark stays where the program dies."""
    mark = _mark(source, way)
    try:
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.write_text(str(_count(mark) + 1), encoding="ascii")
    except OSError as err:
        logger.warning("%s cannot be marked as being read: %s", source.name, err)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            mark.unlink()


def check_safe(source: Path) -> None:
    """Refuse a source that was being read when the program died, twice.

    Raises:
        SourceUnreadable: It was.
    """
    count = max(_count(_mark(source, way)) for way in _WAYS)
    if count >= _MOST:
        raise SourceUnreadable("ended-program", name=source.name, count=str(count))


def _mark(source: Path, way: str) -> Path:
    opened = paths.openable(source)
    digest = hashlib.sha256(str(opened).encode(errors="surrogateescape")).hexdigest()[:16]
    return paths.data_folder() / "reading" / f"{digest}.{way}"


def _count(mark: Path) -> int:
    try:
        return int(mark.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0
