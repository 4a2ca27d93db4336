import json
import zipfile
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from engine.core import paths
from engine.core.errors import OutputUnwritable
from engine.core.messages import message
from engine.farm.identity import Peers, own_identity
from engine.jobs import diagnostics_archive
from engine.jobs.job import Job
from engine.jobs.job_store import JobStore
from engine.protocol.commands import WriteDiagnostics
from engine.protocol.events import TaskDone
from engine.protocol.media import ChapterInfo
from engine.protocol.report import DoctorLine
from engine.settings.schema import JobSettings
from engine.settings.store import to_toml
from tests.helpers.jobs import TASK_ENDS, running_engine
from tests.helpers.plans import a_media, a_plan

LINES = (DoctorLine(name="job folder", state="ok", message=message("doctor.folder", folder="/a")),)
SECRETS = ("anna", "wedding", "grandma", "secret")


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """What a user's jobs leave: folders, titles and logs with names; the folder of the archive."""
    film = tmp_path / "Anna" / "Our Wedding.mp4"
    film.parent.mkdir()
    film.write_bytes(b"film")
    media = replace(
        a_media(),
        path=film,
        metadata={"comment": "Grandma's copy"},
        chapters=(ChapterInfo(start=Fraction(0), end=Fraction(1), title="Grandma dances"),),
    )
    plan = replace(a_plan(), output=film.with_name("Our Wedding_x2.mp4"))
    job = Job(id="a1", media=media, settings=JobSettings(crf=20), output=None, plan=plan)
    folder = JobStore(paths.jobs_folder()).save(job)
    (folder / "job.log").write_text(f"INFO engine.x: {film} has 3 streams\n", encoding="utf-8")
    paths.logs_folder().mkdir(parents=True)
    program = Path(diagnostics_archive.__file__)
    (paths.logs_folder() / "upreel.log").write_text(
        f"10:00 WARNING engine.y: preset Secret Look.toml: not a preset\n"
        f'  File "{program}", line 7, in write\n'
        "ValueError: our wedding is damaged\n"
        "10:01 INFO engine.z: C:\\Users\\Anna\\Secret films\\a.mkv: short\n",
        encoding="utf-8",
    )
    (paths.data_folder() / "settings.toml").write_text("[engine]\nthreads = 3\n")
    return tmp_path


def texts(archive: Path) -> dict[str, str]:
    with zipfile.ZipFile(archive) as file:
        return {name: file.read(name).decode() for name in file.namelist()}


def test_the_archive_says_what_happened_and_names_no_file(traces: Path) -> None:
    diagnostics_archive.write(traces / "a.zip", LINES)
    found = texts(traces / "a.zip")
    assert set(found) == {
        *("about.txt", "doctor.txt", "settings.toml", "logs/upreel.log"),
        *("jobs/a1/job.json", "jobs/a1/job.log"),
    }
    for name, text in found.items():
        assert not [secret for secret in SECRETS if secret in text.lower()], name
    log = found["logs/upreel.log"]
    assert 'File "<program>/engine/jobs/diagnostics_archive.py", line 7, in write' in log
    assert "<name>.toml: not a preset" in log
    assert "<path>.mkv: short" in log
    assert "ValueError: <name> is damaged" in log
    record = json.loads(found["jobs/a1/job.json"])
    assert record["settings"]["crf"] == 20
    assert record["media"]["path"] == "<text>.mp4"
    assert record["media"]["video"]["codec"] == a_media().video.codec
    assert found["settings.toml"] == "[engine]\nthreads = 3\n"


def test_names_are_kept_where_the_user_agrees(traces: Path) -> None:
    diagnostics_archive.write(traces / "a.zip", LINES, with_names=True)
    found = texts(traces / "a.zip")
    assert "Our Wedding.mp4" in found["jobs/a1/job.log"]
    assert (
        json.loads(found["jobs/a1/job.json"])["media"]["chapters"][0]["title"] == "Grandma dances"
    )


@pytest.mark.parametrize("with_names", [False, True])
def test_commands_and_secrets_of_addresses_are_left_out_always(
    with_names: bool, traces: Path
) -> None:
    """Values of settings that are commands, credentials and queries of addresses."""
    command = 'notify -H "token: hunter2" https://hooks.example.com/T0'
    (paths.data_folder() / "settings.toml").write_text(
        to_toml({"engine": {"after_queue": "command", "after_queue_command": command}})
    )
    (paths.logs_folder() / "upreel.log").write_text(
        "WARNING engine.x: https://user:hunter2@mirror.example/a?token=hunter2 failed\n"
    )
    diagnostics_archive.write(traces / "a.zip", LINES, with_names=with_names)
    found = texts(traces / "a.zip")
    assert not [name for name, text in found.items() if "hunter2" in text or "T0" in text]
    assert 'after_queue = "command"\nafter_queue_command = "<command>"' in found["settings.toml"]


def test_paired_computers_are_left_out(traces: Path) -> None:
    peer = Peers().add(own_identity().certificate_text, "Studio computer", "render.box:47110")
    (paths.logs_folder() / "upreel.log").write_text(
        f"INFO engine.x: Studio computer at {peer.address} left; render.box; {peer.fingerprint}\n"
    )
    diagnostics_archive.write(traces / "a.zip", LINES)
    log = texts(traces / "a.zip")["logs/upreel.log"]
    assert log == "INFO engine.x: <name> at <name> left; <name>; <word>\n"


def test_a_record_that_is_damaged_and_a_log_that_is_not_there_are_no_obstacle(traces: Path) -> None:
    folder = JobStore(paths.jobs_folder()).folder("a1")
    (folder / "job.json").write_text('{"title": "Grandma"')
    (folder / "job.log").unlink()
    diagnostics_archive.write(traces / "a.zip", LINES)
    found = texts(traces / "a.zip")
    assert found["jobs/a1/job.json"].startswith("checkpoint-mismatch")
    assert found["jobs/a1/job.log"].startswith("not readable")
    with pytest.raises(OutputUnwritable):
        diagnostics_archive.write(traces / "none" / "a.zip", LINES)


def test_the_engine_writes_it_as_a_task(traces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.diagnostics.examine", lambda: LINES)
    with running_engine(traces / "jobs") as (engine, heard):
        engine.send(WriteDiagnostics(path=traces / "b.zip"))
        assert isinstance(heard.wait(*TASK_ENDS), TaskDone)
        assert "job folder" in texts(traces / "b.zip")["doctor.txt"]
        engine.send(WriteDiagnostics(path=traces / "none" / "b.zip"))
        failed = heard.failed()
        assert failed.error.code == "output-unwritable"
