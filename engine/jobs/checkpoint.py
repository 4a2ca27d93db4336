"""Finished segments in a job's folder: one small record next to each file."""

from __future__ import annotations

import logging
from pathlib import Path

from engine.core import atomic_file
from engine.core.errors import CheckpointMismatch, SourceMissing
from engine.core.serialization import from_plain, read_json, to_plain
from engine.jobs.job_store import StoredJob, fingerprint
from engine.models import registry
from engine.pipeline.segments import SegmentRecord

logger = logging.getLogger(__name__)


class Checkpoint:
    """Implements pipeline.segments.SegmentLog on disk.

    A segment counts when its record is there and names the size its file has. A record is written
    after its file was closed, so killing the program at any moment leaves whole segments only.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._records = _whole_records(folder)

    @property
    def records(self) -> list[SegmentRecord]:
        """Finished segments, in order, without gaps."""
        return self._records

    @property
    def is_complete(self) -> bool:
        """True when the last frame of the source is among them."""
        try:
            return int(self._end.read_text(encoding="ascii")) == len(self._records)
        except (OSError, ValueError):
            return False

    def path(self, number: int) -> Path:
        """File of a segment."""
        return _segment(self._folder, number)

    def add(self, record: SegmentRecord) -> None:
        """Keep a segment whose file is closed."""
        atomic_file.write_json(_record_file(self._folder, record.number), to_plain(record))
        self._records.append(record)

    def complete(self) -> None:
        """The source has no more frames."""
        atomic_file.write_json(self._end, len(self._records))

    @property
    def _end(self) -> Path:
        return self._folder / "complete"


def check_unchanged(stored: StoredJob) -> None:
    """Refuse to join segments that do not belong together.

    Raises:
        SourceMissing: The source is gone.
        CheckpointMismatch: The source or the model's weights have changed since.
    """
    if not stored.media.path.is_file():
        raise SourceMissing("since-start", path=stored.media.path)
    if fingerprint(stored.media.path) != stored.fingerprint:
        raise CheckpointMismatch("source", name=stored.media.path.name, what="source")
    if registry.family_of(stored.plan.work).has_changed(stored.plan.work):
        raise CheckpointMismatch("model", what="weights")


def _whole_records(folder: Path) -> list[SegmentRecord]:
    records: list[SegmentRecord] = []
    while _record_file(folder, len(records)).is_file():
        number = len(records)
        try:
            record = from_plain(SegmentRecord, read_json(_record_file(folder, number)))
            if _segment(folder, number).stat().st_size != record.bytes:
                raise ValueError("another size")
        except (OSError, ValueError, TypeError, KeyError) as err:
            logger.warning("segment %d is made again: %s", number, err)
            break
        records.append(record)
    return records


def _segment(folder: Path, number: int) -> Path:
    return folder / f"segment_{number:06d}.mkv"


def _record_file(folder: Path, number: int) -> Path:
    return folder / f"segment_{number:06d}.json"
