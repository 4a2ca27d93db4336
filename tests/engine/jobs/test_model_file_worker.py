from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.jobs.model_file_service import WeightsDesk
from engine.jobs.model_file_worker import WeightsWorker
from engine.model_files.store import Store
from engine.protocol import commands as c
from engine.protocol import events as e
from tests.helpers.faulty_server import Fault, FaultyServer, faulty_server
from tests.helpers.listening import Listener, running_engine
from tests.helpers.published import CONTENT, PLACE, published, store_of

ENDS = (e.WeightsDone, e.WeightsFailed, e.WeightsStopped)
SLOW = Fault(drip=1000)  # ten seconds


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
def worker(store: Store, heard: Listener) -> Iterator[WeightsWorker]:
    worker = WeightsWorker(heard, WeightsDesk(store))
    yield worker
    worker.close(5.0)
    assert "weights" not in {thread.name for thread in threading.enumerate()}


def stands(event: e.WeightsListed) -> dict[str, str]:
    return {file.id: file.state for file in event.files}


def test_a_download_is_told_from_waiting_to_done(worker: WeightsWorker, heard: Listener) -> None:
    worker.answer(c.GetWeights(file="tiny"))
    done = heard.wait(*ENDS)
    assert isinstance(done, e.WeightsDone)
    assert (done.file, done.phase, done.result.state) == ("tiny", "download", "here")
    assert stands(heard.wait(e.WeightsListed)) == {"tiny": "here", "other": "missing"}
    told = heard.of(e.WeightsProgress)
    assert (told[0].done_mb, told[0].total_mb) == (0, 0), "it waits"
    assert (told[-1].done_mb, told[-1].total_mb) == (0.1024, 0.1024)


def test_a_list_is_answered_while_something_is_loaded(
    worker: WeightsWorker, heard: Listener, server: FaultyServer
) -> None:
    server.faults = [SLOW]
    worker.answer(c.GetWeights(file="tiny"))
    while not server.asked:
        time.sleep(0.01)
    worker.answer(c.ListWeights())
    listed = heard.wait(e.WeightsListed, timeout_s=2)
    assert stands(listed) == {"tiny": "busy", "other": "missing"}
    assert listed.free_mb > 0


def test_stop_ends_what_runs_and_what_waits(
    worker: WeightsWorker, heard: Listener, server: FaultyServer
) -> None:
    server.always = SLOW
    worker.answer(c.GetWeights(file="tiny"))
    worker.answer(c.GetWeights(file="other"))
    worker.answer(c.GetWeights(file="other"))
    while not server.asked:
        time.sleep(0.01)
    worker.answer(c.StopWeights(file="other"))
    assert heard.wait(*ENDS, timeout_s=2).file == "other"
    worker.answer(c.StopWeights(file="tiny"))
    ended = heard.wait(*ENDS, timeout_s=2)
    assert (type(ended), ended.file) == (e.WeightsStopped, "tiny")
    assert stands(heard.wait(e.WeightsListed))["tiny"] == "partial"
    assert [path for path, _ in server.asked] == [PLACE]
    worker.answer(c.StopWeights(file="tiny"))  # nothing to stop any more
    server.always = Fault()
    worker.answer(c.GetWeights(file="tiny"))
    assert isinstance(heard.wait(*ENDS), e.WeightsDone)


def test_failures_are_told_and_the_next_one_is_done(
    worker: WeightsWorker, heard: Listener, server: FaultyServer
) -> None:
    server.faults = [Fault(status=404)]
    for file in ("tiny", "nobody", "other"):
        worker.answer(c.GetWeights(file=file))
    ends = [heard.wait(*ENDS) for _ in range(3)]
    codes = [getattr(end, "error", None) and end.error.code for end in ends]
    assert codes == ["download-failed", "unknown-weights", None]


def test_verify_import_and_remove(
    worker: WeightsWorker, heard: Listener, store: Store, tmp_path: Path
) -> None:
    worker.answer(c.GetWeights(file="tiny"))
    heard.wait(*ENDS)
    for file in ("tiny", str(store.target("tiny.safetensors"))):
        worker.answer(c.VerifyWeights(file=file))
        done = heard.wait(*ENDS)
        assert isinstance(done, e.WeightsDone)
        assert (done.phase, done.result.id, done.result.state) == ("verify", "tiny", "here")
    store.target("tiny.safetensors").write_bytes(b"wrong")
    worker.answer(c.VerifyWeights(file="tiny"))
    failed = heard.wait(*ENDS)
    assert isinstance(failed, e.WeightsFailed)
    assert failed.error.code == "hash-mismatch"
    worker.answer(c.RemoveWeights(file="tiny"))
    gone = heard.wait(*ENDS)
    assert isinstance(gone, e.WeightsDone)
    assert (gone.phase, gone.result.state) == ("remove", "missing")
    worker.answer(c.ImportWeights(path=tmp_path / "none.gguf"))
    missing = heard.wait(*ENDS)
    assert isinstance(missing, e.WeightsFailed)
    assert (missing.file, missing.error.code) == (str(tmp_path / "none.gguf"), "weights-missing")


def test_a_mistake_of_ours_does_not_end_the_thread(
    worker: WeightsWorker,
    heard: Listener,
    monkeypatch: pytest.MonkeyPatch,
    expected_log_errors: list[str],
) -> None:
    expected_log_errors.append("download of tiny")
    real = WeightsDesk.get
    monkeypatch.setattr(WeightsDesk, "get", lambda *_: 1 / 0)
    worker.answer(c.GetWeights(file="tiny"))
    failed = heard.wait(*ENDS)
    assert isinstance(failed, e.WeightsFailed)
    assert failed.error.code == "internal-error"
    monkeypatch.setattr(WeightsDesk, "get", real)
    worker.answer(c.GetWeights(file="tiny"))
    assert isinstance(heard.wait(*ENDS), e.WeightsDone)


def test_the_engine_answers_and_ends_in_the_middle_of_a_download(
    tmp_path: Path, server: FaultyServer, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.model_files.catalogue.catalogue", lambda: store.catalogue)
    monkeypatch.setenv("UPREEL_MODELS", str(store.folder))
    server.always = Fault(drip=1000, stall_after=5000)
    with running_engine(tmp_path / "jobs") as (engine, heard):
        engine.send(c.ListWeights())
        assert stands(heard.wait(e.WeightsListed)) == {"tiny": "missing", "other": "missing"}
        engine.send(c.GetWeights(file="tiny"))
        while store.state("tiny").done_bytes < 5000:
            time.sleep(0.02)
        begin = time.monotonic()
    assert time.monotonic() - begin < 4
    assert store.state("tiny").state == "partial"
    server.always = Fault()
    with running_engine(tmp_path / "jobs") as (engine, heard):
        engine.send(c.GetWeights(file="tiny"))
        assert isinstance(heard.wait(*ENDS), e.WeightsDone)
    assert server.ranges[-1] == "bytes=5000-"
