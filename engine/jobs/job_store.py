"""One folder for each job that has begun; its `job.json` describes the job."""

from __future__ import annotations

import contextlib
import logging
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import filelock

from engine.core import atomic_file, paths
from engine.core.errors import (
    CheckpointMismatch,
    EngineError,
    ErrorInfo,
    JobBusy,
    UnknownJob,
)
from engine.core.file_access import is_folder, writing
from engine.core.paths import NOT_IN_NAMES, is_reserved
from engine.core.serialization import from_plain, read_json, set_aside, to_plain
from engine.jobs.job import Job
from engine.models import registry
from engine.pipeline.source_watch import Fingerprint, state_of
from engine.protocol.media import MediaInfo
from engine.protocol.plan import Plan, WorkPlan
from engine.settings.schema import JobSettings

logger = logging.getLogger(__name__)

VERSION = 2  # of job.json
_FILE = "job.json"
_FAILURE = "failure.json"  # an error that every further try meets
_ROOTS = "job_folders.json"  # in the folder of this user's data
_EXCERPTS = "excerpts"
_LONGEST_NAME = 200  # bytes of a job's
_OLD_NS = 2 * 86_400 * 10**9  # of excerpts: no program is at them any more
_VARIANTS = {WorkPlan: registry.plan_class}
_NAMING_S = 10.0  # a plan takes less
_TRY_S, _POLL_S = 0.2, 0.01  # a look whether a job is held holds it for an instant


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredJob:
    """Content of `job.json`."""

    id: str
    version: int
    media: MediaInfo
    settings: JobSettings
    output: Path | None
    plan: Plan
    fingerprint: Fingerprint


class JobStore:
    """The folder of job folders.

    Jobs are also found in the default folder, and in folders that the user chose earlier: such a
    folder is remembered as long as it holds jobs.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._roots = tuple(dict.fromkeys((root, paths.own_jobs_folder(), *_remembered())))

    @property
    def roots(self) -> tuple[Path, ...]:
        """The folder of new jobs, and all others that may hold some."""
        return self._roots

    def folder(self, job_id: str) -> Path:
        """Folder of one job; need not exist.

        Raises:
            UnknownJob: No folder of a job can have that name.
        """
        if not _is_name(job_id):
            raise UnknownJob("not-a-name", job=job_id)
        folders = [root / job_id for root in self._roots]
        return next((one for one in folders if (one / _FILE).is_file()), folders[0])

    def excerpts(self, job_id: str) -> Path:
        """Folder of what was tried of a job, also of one that has not begun; need not exist.

        Raises:
            UnknownJob: Raised by `folder`.
        """
        return self._root / _EXCERPTS / self.folder(job_id).name

    def remove_excerpts(self, job_id: str) -> None:
        """Delete what was tried of a job; nothing happens where there is nothing."""
        shutil.rmtree(self.excerpts(job_id), ignore_errors=True)

    def old_excerpts(self) -> list[Path]:
        """Folders of excerpts that a program which was killed has left."""
        then_ns = time.time_ns() - _OLD_NS
        found = (self._root / _EXCERPTS).glob("*")
        return [folder for folder in found if 0 < state_of(folder)[1] < then_ns]

    def save(self, job: Job, fingerprint: Fingerprint | None = None) -> Path:
        """Write a job down before it begins; returns its folder.

        Args:
            job: The job to run.
            fingerprint: Fingerprint of its source; None for the present one.

        Raises:
            DiskFull, OutputUnwritable: The program's own folder cannot take it.
        """
        folder = self.folder(job.id)
        stored = StoredJob(
            id=job.id,
            version=VERSION,
            media=job.media,
            settings=job.settings,
            output=job.output,
            plan=job.plan,
            fingerprint=fingerprint or Fingerprint.of(job.media),
        )
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            atomic_file.write_json(folder / _FILE, to_plain(stored))
            (folder / _FAILURE).unlink(missing_ok=True)
            if self._root == paths.jobs_folder() != paths.own_jobs_folder():
                _remember(self._root)
        return folder

    def load(self, job_id: str) -> StoredJob:
        """Read a job back.

        Raises:
            UnknownJob: There is no such job.
            CheckpointMismatch: Its file is damaged or of another version.
        """
        try:
            data = read_json(self.folder(job_id) / _FILE)
            stored = from_plain(StoredJob, migrated(data), _VARIANTS)
            _check_possible(stored)
        except FileNotFoundError as err:
            raise UnknownJob("none-unfinished", job=job_id) from err
        except (OSError, ValueError, TypeError, KeyError, OverflowError) as err:
            raise CheckpointMismatch("record-unreadable", job=job_id) from err
        if stored.version != VERSION:
            raise CheckpointMismatch("other-version", job=job_id)
        return stored

    @contextlib.contextmanager
    def failure_kept(self, job_id: str) -> Iterator[None]:
        """Write down a permanent error of a job that has begun; its next start deletes that."""
        try:
            yield
        except EngineError as err:
            folder = self.folder(job_id)
            if err.is_permanent and (folder / _FILE).is_file():
                with contextlib.suppress(EngineError), writing(folder):
                    atomic_file.write_json(folder / _FAILURE, to_plain(err.info()))
            raise

    def failure(self, job_id: str) -> ErrorInfo | None:
        """The permanent error that a job has met, if it has."""
        try:
            return from_plain(ErrorInfo, read_json(self.folder(job_id) / _FAILURE))
        except (OSError, ValueError, TypeError, KeyError, OverflowError):
            return None  # there is none, or one that cannot be read: it is tried again

    @contextlib.contextmanager
    def held(self, job_id: str) -> Iterator[None]:
        """Keep other programs away from a job; the system lets go of it when this one dies.

        A job that was never saved leaves no folder.

        Raises:
            JobBusy: Another program, or another thread of this one, is at it.
            DiskFull, OutputUnwritable: The program's own folder cannot take it.
        """
        folder = self.folder(job_id)
        lock = filelock.FileLock(folder / "lock", timeout=_TRY_S, poll_interval=_POLL_S)
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            try:
                lock.acquire()
            except filelock.Timeout as err:  # an OSError, too
                raise JobBusy(job=job_id) from err
        try:
            yield
        finally:
            lock.release()
            if not (folder / _FILE).is_file():
                self.remove(job_id)

    def is_held(self, job_id: str) -> bool:
        """True while some program is at the job."""
        try:
            with self.held(job_id):
                return False
        except JobBusy:
            return True

    @contextlib.contextmanager
    def naming(self) -> Iterator[None]:
        """While one program plans and saves a job, others wait with theirs; a little while."""
        record = paths.data_folder() / "names.lock"
        with contextlib.ExitStack() as stack:
            try:
                record.parent.mkdir(parents=True, exist_ok=True)
                stack.enter_context(filelock.FileLock(record, timeout=_NAMING_S))
            except OSError as err:  # a program that stalls, or a folder without locks
                logger.warning("another program may take the name of a result, too: %s", err)
            yield

    def results_elsewhere(self, job_id: str) -> frozenset[Path]:
        """Results of the jobs that programs are at, but for one job."""
        found = set()
        for one in self.readable():
            with contextlib.suppress(EngineError):  # without locks no program is known to run it
                if one.id != job_id and self.is_held(one.id):
                    found.add(one.plan.output)
        return frozenset(found)

    def ids(self) -> list[str]:
        """Names of all jobs that are not finished, oldest first."""
        found = [folder for root in self._roots for folder in _begun(root)]
        # one that ends meanwhile has no time any more
        return [f.name for f in sorted(found, key=lambda f: (state_of(f / _FILE)[1], f.name))]

    def readable(self) -> list[StoredJob]:
        """All jobs that are not finished, newest first, but for those that cannot be read."""
        found = []
        for job_id in reversed(self.ids()):
            with contextlib.suppress(EngineError):
                found.append(self.load(job_id))
        return found

    def remove(self, job_id: str) -> None:
        """Delete a job's folder with its segments; nothing happens when there is none.

        Its record goes first, as a record without the other files of its job could not be
        continued. Where the record stays, all stays: a finished job is removed at its next run.
        """
        folder = self.folder(job_id)
        try:
            (folder / _FILE).unlink(missing_ok=True)
        except OSError as err:
            logger.warning("the job %s could not be removed: %s", job_id, err)
            return
        shutil.rmtree(folder, ignore_errors=True)
        if folder.parent in _remembered() and not _begun(folder.parent):
            _forget(folder.parent)


def _is_name(job_id: str) -> bool:
    """Whether the folder of a job can have that name, on any system: one name, in its parent."""
    is_taken = job_id in (".", "..", _EXCERPTS) or is_reserved(job_id)
    is_long = len(job_id.encode(errors="surrogateescape")) > _LONGEST_NAME
    return bool(job_id) and not (is_taken or is_long or NOT_IN_NAMES.search(job_id))


def _begun(root: Path) -> list[Path]:
    """Folders of the jobs in a folder; none where that has gone."""
    return [f for f in root.iterdir() if (f / _FILE).is_file()] if is_folder(root) else []


# --- folders that were chosen for jobs and hold some


def _remembered() -> list[Path]:
    record = paths.data_folder() / _ROOTS
    with set_aside(record):
        return list(from_plain(tuple[Path, ...], read_json(record)))
    return []


def _remember(root: Path) -> None:
    roots = _remembered()
    if root not in roots:
        _write_roots([*roots, root])


def _forget(root: Path) -> None:
    with contextlib.suppress(OSError):  # a full disk: it is forgotten another time
        _write_roots([one for one in _remembered() if one != root])


def _write_roots(roots: list[Path]) -> None:
    record = paths.data_folder() / _ROOTS
    record.parent.mkdir(parents=True, exist_ok=True)
    atomic_file.write_json(record, to_plain(roots))


def _check_possible(stored: StoredJob) -> None:
    """Raises ValueError or OverflowError for sizes and rates that no video and no plan can have."""
    video, picture = stored.media.video, stored.plan.picture
    steps = (video.time_base, video.sample_aspect, picture.time_base, picture.sample_aspect)
    rates = (picture.frame_rate, 1 if video.frame_rate is None else video.frame_rate)
    if min(*steps, *rates) <= 0 or stored.plan.frames < 0:
        raise ValueError("a rate that is not above 0")
    if video.size.is_empty or picture.size.is_empty:
        raise ValueError("an image without pixels")


# --- jobs of earlier versions

Data = dict[str, Any]

_OF_EVERY_FAMILY = ("model", "device", "dtype", "clip_frames", "threads", "switches")


def migrated(data: Data) -> Data:
    """A job's data in the present version; those of versions that are not known stay as they are.

    Raises:
        KeyError, TypeError: They are not the data of a job.
    """
    return _from_version_1(data) if data["version"] == 1 else data


def _from_version_1(data: Data) -> Data:
    """Version 1 had one class of plans for all families, with a part for each of two of them."""
    plan = dict(data["plan"])
    plan["work"] = _work(plan.pop("model"), plan["source_size"])
    plan |= {"reasons": None, "notices": []}  # their messages had other values
    return {**data, "version": 2, "plan": plan}


def _work(old: Data, source_size: Data) -> Data:
    common = {name: old[name] for name in _OF_EVERY_FAMILY if name in old}
    if old.get("diffusion") is not None:
        return {**common, "family": "seedvr2", **old["diffusion"]}
    if old.get("wan") is not None:
        return {**common, "family": "wan", **old["wan"]}
    if old["model"] == "none":
        return {**common, "family": "copy", "frame": source_size, "tile": source_size}
    return {
        **common,
        "family": "lite",
        "treatment": old["form"],
        "factor": old["scale"],
        "weights": old["weights"],
        "weights_sha256": old["weights_sha256"],
        "frame": source_size,
        "tile": old["tile"],
        "overlap": old["overlap"],
    }
