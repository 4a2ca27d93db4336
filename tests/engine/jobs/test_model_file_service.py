import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.files.model_files import Store
from engine.jobs.model_file_service import ModelFileService
from engine.jobs.task_runner import TaskRunner
from engine.protocol import commands as c
from engine.protocol import events as e
from tests.helpers.jobs import Listener, running_engine
from tests.helpers.servers import CONTENT, Fault, FaultyServer, published, store_of

Start = Callable[[c.ModelFileCommand], None]


@pytest.fixture
def store(tmp_path: Path, server: FaultyServer) -> Store:
    server.files["/some/body/main/other.safetensors"] = CONTENT[::-1]
    other = published(CONTENT[::-1], id="other", filename="other.safetensors")
    return store_of(tmp_path / "models", server, published(), other)


@pytest.fixture
def start(store: Store, heard: Listener) -> Iterator[Start]:
    """Starts the task of a command."""
    runner, service = TaskRunner(heard), ModelFileService(store)
    yield lambda command: runner.start(service.answer(command))
    runner.close(5.0)


def stands(event: e.ModelFilesListed) -> dict[str, str]:
    return {file.id: file.state for file in event.files}


def test_download_verify_import_and_remove(
    start: Start, heard: Listener, store: Store, server: FaultyServer, tmp_path: Path
) -> None:
    server.faults = [Fault(status=404)]
    for file, code in (("tiny", "download-failed"), ("unknown", "unknown-weights")):
        start(c.DownloadModelFile(file=file))
        assert heard.failed().error.code == code
    heard.seen.clear()
    start(c.DownloadModelFile(file="tiny"))
    done = heard.done()
    assert (done.subject, done.phase, done.result.state) == ("tiny", "download", "here")
    assert stands(heard.of(e.ModelFilesListed)[-1]) == {"tiny": "here", "other": "missing"}
    progress = heard.of(e.TaskProgress)
    assert (progress[0].done, progress[0].total) == (0, 0), "it waits"
    assert (progress[-1].done, progress[-1].total) == (0.1024, 0.1024)
    for file in ("tiny", str(store.target("tiny.safetensors"))):
        start(c.VerifyModelFile(file=file))
        done = heard.done()
        assert (done.phase, done.result.id, done.result.state) == ("verify", "tiny", "here")
    store.target("tiny.safetensors").write_bytes(b"wrong")
    start(c.VerifyModelFile(file="tiny"))
    assert heard.failed().error.code == "hash-mismatch"
    start(c.RemoveModelFile(file="tiny"))
    gone = heard.done()
    assert (gone.phase, gone.result.state) == ("remove", "missing")
    start(c.ImportModelFile(path=tmp_path / "none.gguf"))
    missing = heard.failed()
    assert (missing.subject, missing.error.code) == (str(tmp_path / "none.gguf"), "weights-missing")


def test_the_engine_answers_and_ends_in_the_middle_of_a_download(
    tmp_path: Path, server: FaultyServer, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.files.catalogue.catalogue", lambda: store.catalogue)
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
        heard.done()
    assert server.ranges[-1] == "bytes=5000-"
