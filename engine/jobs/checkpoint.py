"""Finished segments in a job's folder: one small record next to each file."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from engine.core import atomic_file
from engine.core.control import Control
from engine.core.errors import CheckpointMismatch, SourceMissing
from engine.core.file_access import RetryingFile, writing
from engine.core.serialization import from_plain, read_json, to_plain
from engine.jobs import made_results
from engine.jobs.job_store import StoredJob
from engine.models import registry
from engine.ops.choices import Choices
from engine.pipeline.publication import Publication
from engine.pipeline.segments import FinishedSegments, SegmentRecord, segment_path
from engine.protocol.plan import Notice, Plan
from engine.settings.schema import JobSettings

logger = logging.getLogger(__name__)

CHOICES_VERSION = 1  # of choices.json
_PIECE_BYTES = 1 << 22
_NOT_IN_SEGMENTS = ("container", "overwrite", "accept_damaged", "workers", "machines")


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChoiceRecord:
    """Content of `choices.json`: the choices of a job by their keys."""

    version: int
    choices: Mapping[str, str]


class Checkpoint:
    """Implements pipeline.segments.SegmentLog on disk.

    Segments may be finished in any order: those after the first missing one are `ahead`. A segment
    is finished when its record exists and has the size of its file. The record is written after the
    file was closed, so killing the program at any moment leaves whole segments only. The SHA-256 in
    it is compared before the segments are joined; records of earlier versions have none.

    The choices that segments were made by are written before the first record that depends on
    them, so a job that was killed has all that it needs to go on alike.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._finished = FinishedSegments(_whole_records(folder))
        self._kept = 0  # choices in their file

    @property
    def records(self) -> list[SegmentRecord]:
        """Finished segments, in order, without gaps."""
        return self._finished.records

    @property
    def ahead(self) -> list[SegmentRecord]:
        """Finished segments after the first missing one, in order."""
        return self._finished.ahead

    @property
    def frames(self) -> int:
        """Frames in all finished segments."""
        return sum(record.frames for record in self._finished)

    @property
    def is_complete(self) -> bool:
        """True when the segments reach the last frame of the source."""
        try:
            return int(self._end.read_text(encoding="ascii")) == len(self.records)
        except (OSError, ValueError):
            return False

    def path(self, number: int) -> Path:
        """File of a segment."""
        return segment_path(self._folder, number)

    def add(self, record: SegmentRecord) -> None:
        """Record a segment whose file is closed."""
        path = self.path(record.number)
        with writing(path):
            record = replace(record, sha256=_sha256_of(path))
        self._keep_choices()
        self._write(_record_file(self._folder, record.number), record)
        self._finished.add(record)

    @cached_property
    def choices(self) -> Choices:
        """Choices that the segments were made by; none where an earlier version made them.

        Raises:
            CheckpointMismatch: Their file is damaged or of another version.
        """
        try:
            if not self.frames:
                raise FileNotFoundError
            record = from_plain(_ChoiceRecord, read_json(self._choices))
        except FileNotFoundError:
            return Choices()
        except (OSError, ValueError, TypeError, KeyError) as err:
            raise CheckpointMismatch("record-unreadable", job=self._folder.name) from err
        if record.version != CHOICES_VERSION:
            raise CheckpointMismatch("other-version", job=self._folder.name)
        self._kept = len(record.choices)
        return Choices(record.choices)

    def _keep_choices(self) -> None:
        known = self.choices.known
        if len(known) > self._kept:
            self._write(self._choices, _ChoiceRecord(version=CHOICES_VERSION, choices=known))
            self._kept = len(known)

    def complete(self) -> None:
        """Record that the frames of `records` are all that the source has."""
        self._forget(self._finished.drop(len(self.records)))
        self._write(self._end, len(self.records))

    def first_damaged(self, control: Control) -> int | None:
        """Number of the first segment whose file has changed since then; None for none."""
        for record in self.records:
            control.check()
            if record.sha256 and not _is_unchanged(self.path(record.number), record):
                return record.number
        return None

    def drop(self, first: int) -> list[SegmentRecord]:
        """Delete the records of all segments from a number on; returns them."""
        dropped = self._finished.drop(first)
        logger.warning("%d segments are processed again, from number %d on", len(dropped), first)
        self._forget(dropped)
        return dropped

    def _forget(self, records: Sequence[SegmentRecord]) -> None:
        for record in records:
            path = _record_file(self._folder, record.number)
            with writing(path):
                path.unlink(missing_ok=True)

    def clear(self) -> None:
        """Delete all segments and the record of a finished result."""
        found = self._finished.drop(0)
        self._kept = 0
        self.__dict__.pop("choices", None)
        paths = [self.path(record.number) for record in found]
        notes = [_record_file(self._folder, record.number) for record in found]
        for path in (self._result, self._end, *reversed(notes), self._choices, *paths):
            with writing(path):
                path.unlink(missing_ok=True)

    @property
    def publication(self) -> Publication | None:
        """The finished result of an earlier run that may not have been renamed yet."""
        try:
            return from_plain(Publication, read_json(self._result))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as err:
            logger.warning("the result is created again: %s", err)
            return None

    def add_publication(self, publication: Publication) -> None:
        """Record that the result is finished and about to be renamed."""
        self._write(self._result, publication)
        made_results.note(publication.part)

    def forget_lost_result(self) -> None:
        """Delete the record of a finished result that is gone: it will be created again.

        While there is one, permission to replace a file does not count for what came after it.
        """
        found = self.publication
        if found is not None and not (found.is_published or found.part.exists()):
            with writing(self._result):
                self._result.unlink(missing_ok=True)

    def _write(self, path: Path, data: object) -> None:
        with writing(path):
            atomic_file.write_json(path, to_plain(data))

    @property
    def _result(self) -> Path:
        return self._folder / "result.json"

    @property
    def _choices(self) -> Path:
        return self._folder / "choices.json"

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
        path = stored.media.path
        raise SourceMissing("since-start", name=path.name, path=path)
    if not stored.fingerprint.fits(stored.media):
        raise CheckpointMismatch("source", name=stored.media.name, what="source")
    if any(registry.family_of(work).has_changed(work) for work in stored.plan.passes):
        raise CheckpointMismatch("model", what="weights")


def has_only_other_name(stored: StoredJob, settings: JobSettings) -> bool:
    """Whether settings differ from those of a job only in values that segments do not depend on."""
    named = {name: getattr(settings, name) for name in _NOT_IN_SEGMENTS}
    return replace(stored.settings, **named) == settings


def fits_segments(stored: StoredJob, settings: JobSettings, plan: Plan) -> bool:
    """Whether a plan can continue from the finished segments of a job."""
    picture = replace(plan.picture, threads=stored.plan.picture.threads)
    return picture == stored.plan.picture and has_only_other_name(stored, settings)


def with_fate_of_segments(
    stored: StoredJob, settings: JobSettings, plan: Plan, frames: int
) -> Plan:
    """The plan, with a notice if it cannot continue from the finished segments of a job.

    With changed settings the segments are replaced at the start. With the same settings the machine
    has changed: the notice refuses the plan.

    Args:
        stored: Job that the segments belong to.
        settings: Present settings.
        plan: Plan made from them.
        frames: Number of frames in the segments.
    """
    if fits_segments(stored, settings, plan):
        return plan
    is_same = has_only_other_name(stored, settings) and plan.container == stored.plan.container
    notice = Notice(
        code="segments-replaced",
        case="machine" if is_same else "choices",
        severity="refusal" if is_same else "warning",
        params={
            "percent": str(min(100, round(100 * frames / max(1, stored.plan.frames)))),
            "encoder": stored.plan.picture.encoder,
        },
    )
    return replace(plan, notices=(notice, *plan.notices))


def _whole_records(folder: Path) -> list[SegmentRecord]:
    """Records of all segments whose files exist, in order."""
    found = []
    for note in folder.glob("segment_*.json"):
        try:
            record = from_plain(SegmentRecord, read_json(note))
            if note != _record_file(folder, record.number):
                raise ValueError("another number")
            if segment_path(folder, record.number).stat().st_size != record.bytes:
                raise ValueError("another size")
        except (OSError, ValueError, TypeError, KeyError) as err:
            logger.warning("%s is processed again: %s", note.stem, err)
            continue
        found.append(record)
    return sorted(found, key=lambda record: record.number)


def _is_unchanged(path: Path, record: SegmentRecord) -> bool:
    try:
        return _sha256_of(path) == record.sha256
    except OSError as err:
        logger.warning("%s cannot be read: %s", path.name, err)
        return False


def _sha256_of(path: Path) -> str:
    """SHA-256 of a segment's file, in hexadecimal digits.

    Raises:
        OSError: It cannot be read.
    """
    digest = hashlib.sha256()
    with RetryingFile(path) as file:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
        if file.failure is not None:
            raise file.failure
    return digest.hexdigest()


def _record_file(folder: Path, number: int) -> Path:
    return folder / f"segment_{number:06d}.json"
