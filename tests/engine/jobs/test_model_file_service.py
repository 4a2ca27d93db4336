from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.jobs.model_file_service import ModelFileService
from engine.jobs.task_runner import TaskRunner
from engine.model_files.store import Store
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol.tasks import Task
from tests.helpers.jobs import TASK_ENDS, Listener, running_engine
from tests.helpers.servers import (
    CONTENT,
    PLACE,
    Fault,
    FaultyServer,
    faulty_server,
    published,
    store_of,
)

Ask = Callable[[c.ModelFileCommand], e.TaskEvent]


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    with faulty_server() as server:
        server.files[PLACE] = CONTENT
        server.files["/some/body/main/other.safetensors"] = CONTENT[::-1]
        yield server


@pytest.fixture
def store(tmp_path: Path, server: FaultyServer) -> Store:
    other = published(CONTENT[::-1], id="other", filename="other.safetensors")
    return store_of(tmp_path / "models", server, published(), other)


@pytest.fixture
def heard() -> Listener:
    return Listener()


@pytest.fixture
def ask(store: Store, heard: Listener) -> Iterator[Ask]:
    """Runs the task of a command to its end."""
    runner, service = TaskRunner(heard), ModelFileService(store)

    def ask(command: c.ModelFileCommand) -> e.TaskEvent:
        task = service.answer(command)
        assert isinstance(task, Task)
        runner.start(task)
        return heard.wait(*TASK_ENDS)

    yield ask
    runner.close(5.0)


def stands(event: e.ModelFilesListed) -> dict[str, str]:
    return {file.id: file.state for file in event.files}


def test_failures_are_told(ask: Ask, server: FaultyServer) -> None:
    server.faults = [Fault(status=404)]
    for file, code in (("tiny", "download-failed"), ("nobody", "unknown-weights")):
        failed = ask(c.DownloadModelFile(file=file))
        assert isinstance(failed, e.TaskFailed)
        assert failed.error.code == code


def test_download_verify_import_and_remove(
    ask: Ask, heard: Listener, store: Store, tmp_path: Path
) -> None:
    done = ask(c.DownloadModelFile(file="tiny"))
    assert isinstance(done, e.TaskDone)
    assert done.result is not None
    assert (done.subject, done.phase, done.result.state) == ("tiny", "download", "here")
    assert stands(heard.of(e.ModelFilesListed)[-1]) == {"tiny": "here", "other": "missing"}
    progress = heard.of(e.TaskProgress)
    assert (progress[0].done, progress[0].total) == (0, 0), "it waits"
    assert (progress[-1].done, progress[-1].total) == (0.1024, 0.1024)
    for file in ("tiny", str(store.target("tiny.safetensors"))):
        done = ask(c.VerifyModelFile(file=file))
        assert isinstance(done, e.TaskDone)
        assert done.result is not None
        assert (done.phase, done.result.id, done.result.state) == ("verify", "tiny", "here")
    store.target("tiny.safetensors").write_bytes(b"wrong")
    failed = ask(c.VerifyModelFile(file="tiny"))
    assert isinstance(failed, e.TaskFailed)
    assert failed.error.code == "hash-mismatch"
    gone = ask(c.RemoveModelFile(file="tiny"))
    assert isinstance(gone, e.TaskDone)
    assert gone.result is not None
    assert (gone.phase, gone.result.state) == ("remove", "missing")
    missing = ask(c.ImportModelFile(path=tmp_path / "none.gguf"))
    assert isinstance(missing, e.TaskFailed)
    assert (missing.subject, missing.error.code) == (str(tmp_path / "none.gguf"), "weights-missing")


def test_the_engine_answers_and_ends_in_the_middle_of_a_download(
    tmp_path: Path, server: FaultyServer, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.model_files.catalogue.catalogue", lambda: store.catalogue)
    monkeypatch.setenv("UPREEL_MODELS", str(store.folder))
    server.always = Fault(drip=1000, stall_after=5000)
    with running_engine(tmp_path / "jobs") as (engine, heard):
        engine.send(c.DownloadModelFile(file="tiny"))
        while store.state("tiny").done_bytes < 5000:
            time.sleep(0.02)
        engine.send(c.ListModelFiles())
        listed = heard.wait(e.ModelFilesListed, timeout_s=2)
        assert stands(listed) == {"tiny": "busy", "other": "missing"}
        assert listed.free_mb > 0
        begin = time.monotonic()
    assert time.monotonic() - begin < 4
    assert store.state("tiny").state == "partial"
    server.always = Fault()
    with running_engine(tmp_path / "jobs") as (engine, heard):
        engine.send(c.DownloadModelFile(file="tiny"))
        assert isinstance(heard.wait(*TASK_ENDS), e.TaskDone)
    assert server.ranges[-1] == "bytes=5000-"
