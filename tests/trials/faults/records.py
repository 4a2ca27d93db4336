"""Damaged files of the program's own: planning, resuming and the window's start go on."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from engine.api import unfinished
from engine.core import atomic_file, paths
from engine.core.serialization import to_plain
from engine.files.catalogue import HashCache, record_of
from engine.files.hashing import FileIdentity
from engine.jobs.checkpoint import Checkpoint
from engine.jobs.job import Job
from engine.jobs.job_store import JobStore
from engine.pipeline.segments import SegmentRecord
from engine.planner import rates
from engine.planner.preset_choice import offered
from engine.settings import presets, store
from engine.settings.schema import EngineSettings, JobSettings
from tests.helpers.plans import a_media, a_plan
from tests.trials.faults import mutators
from tests.trials.faults.group import Group
from tests.trials.faults.outcomes import Outcome, outcome_of

_JOB = "a1"


def _preset() -> Path:
    presets.save("Mine", JobSettings(crf=20))
    return presets.folder() / "mine.toml"


def _use_presets() -> None:
    presets.load_all()
    offered(None)


def _settings() -> Path:
    atomic_file.write_text(
        store.settings_file(), store.to_toml({"engine": asdict(EngineSettings())})
    )
    return store.settings_file()


def _job() -> Path:
    source = paths.data_folder() / "film.mkv"
    source.write_bytes(b"film")
    media = replace(a_media(), path=source)
    job = Job(id=_JOB, media=media, settings=JobSettings(), output=None, plan=a_plan())
    return JobStore(paths.jobs_folder()).save(job) / "job.json"


def _use_jobs() -> None:
    unfinished()
    stored = JobStore(paths.jobs_folder()).load(_JOB)
    to_plain(stored)


def _segment() -> Path:
    folder = _job().parent
    (folder / "segment_000000.mkv").write_bytes(b"segment")
    Checkpoint(folder).add(
        SegmentRecord(number=0, pts=(1, 2), durations=(1, 1), bytes=7, crcs=(6, 7))
    )
    return folder / "segment_000000.json"


def _use_segments() -> None:
    unfinished()
    sum(one.frames for one in Checkpoint(JobStore(paths.jobs_folder()).folder(_JOB)).records)


def _rates() -> Path:
    rates.learn("copy libx264", predicted=10.0, measured=12.0)
    return paths.cache_folder() / "rates.json"


def _use_rates() -> None:
    found = rates.load_rates()
    found.factor("copy libx264")
    found.factor("copy libx265")
    rates.learn("copy libx264", predicted=10.0, measured=12.0)


def _hashes() -> Path:
    folder = paths.models_folder()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "a.safetensors").write_bytes(b"weights")
    weights = folder / "a.safetensors"
    HashCache(folder).add(record_of(weights, "0" * 64, FileIdentity.of(weights)))
    return next(path for path in folder.iterdir() if path.suffix == ".json")


def _use_hashes() -> None:
    any(record.is_current for record in HashCache(paths.models_folder()).records())


SOURCES: dict[str, tuple[Callable[[], Path], Callable[[], object]]] = {
    "preset": (_preset, _use_presets),
    "settings": (_settings, store.load_engine_settings),
    "job": (_job, _use_jobs),
    "segment": (_segment, _use_segments),
    "rates": (_rates, _use_rates),
    "hashes of models": (_hashes, _use_hashes),
}


class Records(Group):
    """A mutant of each kind of file in turn."""

    name = "records"
    rows = tuple(SOURCES)
    usual = 6_000
    memory = 400 * 2**20

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        os.environ["UPREEL_DATA"] = str(folder / "data")
        paths.data_folder().mkdir()
        self._files = {}
        for row, (make, use) in SOURCES.items():
            path = make()
            use()
            self._files[row] = (path, path.read_bytes())

    def run(self, number: int) -> Outcome:
        """Write the mutant, use it, put the right file back."""
        row, rng = self.row(number), self.chances(number)
        path, data = self._files[row]
        path.write_bytes(rng.choice(mutators.TEXT)(data, rng))
        outcome = outcome_of(SOURCES[row][1])
        path.write_bytes(data)
        return outcome
