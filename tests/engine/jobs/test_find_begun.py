"""Search for the unfinished job that the same upscale continues."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engine import api
from engine.core import paths
from engine.jobs.job import Job
from engine.jobs.job_store import JobStore
from engine.jobs.stored_run import continues, find_begun
from engine.pipeline.prepare import Machine, described, make_plan
from engine.protocol.commands import AddJob, AdoptJob
from engine.protocol.plan import Plan
from engine.settings.schema import EngineSettings, JobSettings
from tests.helpers.clips import make_pictures
from tests.helpers.plans import a_media

COPY = JobSettings(model="none", codec="h264")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "film.mkv"
    path.write_bytes(b"film")
    return path


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(settings=EngineSettings(threads=1), jobs_folder=tmp_path / "jobs")


def begin(
    source: Path,
    machine: Machine,
    name: str = "a",
    output: Path | None = None,
    change: Callable[[Plan], Plan] = lambda plan: plan,
) -> Path:
    """Write a job down as it begins, with some of its plan changed; returns its folder."""
    media = replace(a_media(), path=source)
    plan = change(make_plan(media, COPY, output, machine))
    job = Job(id=name, media=media, settings=COPY, output=output, plan=plan)
    return JobStore(machine.jobs_folder).save(job)


def found(
    source: Path, machine: Machine, settings: JobSettings = COPY, output: Path | None = None
) -> str | None:
    jobs = JobStore(machine.jobs_folder).readable()
    return find_begun(source, settings, output, machine, jobs)


def test_it_has_the_same_source_settings_and_result(source: Path, machine: Machine) -> None:
    other = source.with_name("other.mkv")
    begin(source, machine)
    begin(source, machine, "b", other)
    assert found(source, machine) == "a"
    assert found(source, machine, replace(COPY, overwrite=True)) == "a"
    assert found(source, machine, replace(COPY, height=72)) is None
    assert found(source, machine, output=other) == "b"
    assert found(source, machine, output=source.with_name("third.mkv")) is None
    assert found(other, machine) is None
    (job, _) = JobStore(machine.jobs_folder).readable()
    assert continues(job, source), "with its own settings"
    assert not continues(job, other)
    source.write_bytes(b"another film")
    assert found(source, machine) is None
    assert not continues(job, source)
    assert api.begun_jobs([source], machine.jobs_folder) == ()


@pytest.mark.parametrize("change", [{"output_folder": "other"}, {"name_pattern": "{name}_new"}])
@pytest.mark.parametrize("is_named", [True, False])
def test_its_result_would_be_where_a_new_one_would_be(
    change: dict[str, str], is_named: bool, source: Path, machine: Machine, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    change = {
        name: value.replace("other", str(tmp_path / "other")) for name, value in change.items()
    }
    named = tmp_path / "named.mkv" if is_named else None
    begin(source, machine, output=named)
    changed = replace(machine, settings=replace(machine.settings, **change))
    assert found(source, machine, output=named) == "a"
    assert found(source, changed, output=named) == ("a" if is_named else None)


def test_its_name_may_have_a_number(source: Path, machine: Machine) -> None:
    begin(source, machine, change=lambda plan: replace(plan, output=paths.numbered(plan.output)))
    assert found(source, machine) == "a"


def test_its_encoder_is_here_or_not_needed_any_more(source: Path, machine: Machine) -> None:
    def on_gpu(plan: Plan) -> Plan:
        return replace(plan, picture=replace(plan.picture, encoder="h264_nvenc"))

    folder = begin(source, machine, change=on_gpu)
    assert found(source, machine) is None
    (folder / "complete").write_text("0")
    assert found(source, machine) == "a"


def test_a_folder_of_pictures_is_probed_where_it_may_be_the_source(
    tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures = tmp_path / "shots"
    pattern = make_pictures(pictures, 2)
    media = api.probe(pictures)
    plan = make_plan(media, COPY, None, machine)
    store = JobStore(machine.jobs_folder)
    store.save(Job(id="a", media=media, settings=COPY, output=None, plan=plan))
    assert found(pictures, machine) == found(Path(pattern), machine) == "a"
    assert [job.source for job in api.unfinished(machine.jobs_folder)] == [pictures]
    monkeypatch.setattr("engine.jobs.stored_run.probe_source", None)
    assert found(tmp_path, machine) is None


@pytest.mark.parametrize("name", ["shots", "shots/shot_%04d.png"])
def test_a_sequence_stays_what_was_given(tmp_path: Path, name: str) -> None:
    make_pictures(tmp_path / "shots", 2)
    media = api.probe(tmp_path / name)
    other_stream = described(media, replace(COPY, video_stream=0))
    assert media.given == other_stream.given == tmp_path / name


def test_the_jobs_are_read_once_for_all_sources(
    source: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = replace(machine, jobs_folder=paths.jobs_folder())
    begin(source, own)
    read, load = [], JobStore.load
    monkeypatch.setattr(JobStore, "load", lambda *names: read.append(names) or load(*names))
    others = [source.with_name(name) for name in ("b.mkv", "c.mkv")]
    settings = {"engine_settings": own.settings}
    first, *rest = api.commands_for([source, *others], COPY, **settings)
    assert isinstance(first, AdoptJob)
    assert first.job_id == "a"
    assert first.otherwise == AddJob(job_id="a", source=source, settings=COPY)
    assert [one.source for one in rest] == others
    assert len(read) == 1


def test_a_source_that_is_named_twice_is_one_job(
    source: Path, machine: Machine, tmp_path: Path
) -> None:
    other = source.with_name("b.mkv")
    roundabout = tmp_path / ".." / tmp_path.name / "b.mkv"
    jobs = api.commands_for([source, other, source, roundabout], COPY)
    assert [one.source for one in jobs] == [source, other]
    begin(source, replace(machine, jobs_folder=paths.jobs_folder()))
    (job,) = api.commands_for([source, source], COPY, engine_settings=machine.settings)
    assert job.job_id == "a"
