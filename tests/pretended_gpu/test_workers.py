"""Jobs that two pretended GPUs make together, in a process each."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.core import gpu_loss
from engine.hardware import devices
from engine.hardware.gpu_table import named
from engine.jobs.checkpoint import Checkpoint
from engine.pipeline.gpu_guard import cared_for
from engine.pipeline.run import run_job
from engine.protocol.events import Warned, WorkerProgress
from engine.protocol.plan import Plan, WorkerPlan
from engine.workers import pool
from engine.workers.hand_out import hand_out
from tests.engine.workers.test_hand_out import job_of, planned
from tests.helpers.extended import rest_extended
from tests.helpers.jobs import Events, segment_files
from tests.pretended_gpu.machine import pretended_gpu
from tests.pretended_gpu.test_jobs import on_gpu
from tests.pretended_gpu.worker import FOLDER, HERE, LOST, NAMES

pytestmark = pytest.mark.pretended_gpu

Used = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Used:
    """Workers have two pretended GPUs; what each process used of them."""
    folder = tmp_path / "used"
    folder.mkdir()
    monkeypatch.setenv(FOLDER, str(folder))
    monkeypatch.setenv(HERE, str(len(NAMES)))
    monkeypatch.setattr(pool, "PRELOADED", [*pool.PRELOADED, "tests.pretended_gpu.worker"])
    here = devices.as_gpus([named(name) for name in NAMES])
    monkeypatch.setattr(devices, "gpus", lambda: here)
    monkeypatch.setattr(gpu_loss, "_lost", threading.Event())
    return lambda: [json.loads(file.read_text("utf-8")) for file in folder.iterdir()]


def made(plan: Plan, folder: Path, workers: tuple[WorkerPlan, ...], events: Events) -> None:
    """Run a job as the program does."""
    context = job_of(plan, folder, 0, events)
    context.plan = replace(context.plan, workers=workers)
    context.hand_out = hand_out if workers else None
    with cared_for(context):
        run_job(context, Checkpoint(folder), overwrite=True)


WORKERS = tuple(WorkerPlan(gpu=name, card=name) for name in NAMES)


def job_on_gpu(kind: str, folder: Path, shots: tuple[int, int, int]) -> Plan:
    """In spans of one segment."""
    found = planned(kind, folder, shots=shots)
    work = on_gpu(found.work)
    return replace(found, work=work, gpu=NAMES[0], device_limit_bytes=2**30, span_segments=1)


@pytest.mark.parametrize(
    ("kind", "shots"),
    rest_extended([("lite", (9, 8, 8)), ("seedvr2", (5, 4, 3))], ("lite", (9, 8, 8))),
)
def test_two_gpus_make_the_segments_of_one(
    kind: str, shots: tuple[int, int, int], tmp_path: Path, used: Used
) -> None:
    plan, events = job_on_gpu(kind, tmp_path, shots), Events()
    with pretended_gpu() as gpu:
        made(plan, tmp_path / "one", (), Events())
    assert gpu.launches
    with pretended_gpu() as gpu:
        made(plan, tmp_path / "two", WORKERS, events)
    assert segment_files(tmp_path / "two") == segment_files(tmp_path / "one")
    assert not gpu.launches, "the process of the job leaves the GPUs to the workers"
    assert sorted(one["used"] for one in used()) == [[0], [1]], "each has its own"
    assert not [one["problems"] for one in used() if one["problems"]]
    assert {one.name for one in events.of(WorkerProgress)} <= set(NAMES)
    assert not events.of(Warned)


@pytest.mark.extended
def test_a_gpu_that_has_gone_takes_only_its_spans_along(
    tmp_path: Path,
    used: Used,
    monkeypatch: pytest.MonkeyPatch,
    expected_log_errors: list[str],
) -> None:
    """The other GPU makes them; the process of the one that has gone does not go there as well."""
    expected_log_errors += ["distributed."]  # it may end with a span that it had begun
    monkeypatch.setenv(HERE, "1")
    plan, events = job_on_gpu("lite", tmp_path, (9, 8, 8)), Events()
    with pretended_gpu():
        made(plan, tmp_path / "one", (), Events())
        made(plan, tmp_path / "two", WORKERS, events)
    assert segment_files(tmp_path / "two") == segment_files(tmp_path / "one")
    assert sorted(one["used"] for one in used()) == [[], [0]]
    (notice,) = (one.notice for one in events.of(Warned))
    assert (notice.code, notice.case) == ("worker-left-out", "gpu")
    assert notice.message.startswith(NAMES[1])


@pytest.mark.extended
def test_a_gpu_that_is_lost_is_used_again_by_another_process(
    tmp_path: Path,
    used: Used,
    monkeypatch: pytest.MonkeyPatch,
    expected_log_errors: list[str],
) -> None:
    expected_log_errors += ["distributed.", "tornado."]
    monkeypatch.setenv(LOST, str(tmp_path / "lost"))
    plan, events = job_on_gpu("lite", tmp_path, (9, 8, 8)), Events()
    with pretended_gpu():
        made(plan, tmp_path / "one", (), Events())
        made(plan, tmp_path / "two", WORKERS, events)
    assert (tmp_path / "lost").exists()
    assert segment_files(tmp_path / "two") == segment_files(tmp_path / "one")
    assert not events.of(Warned), "it has lost no more than its span"


@pytest.mark.extended
def test_what_workers_leave_is_made_by_the_process_of_the_job(
    tmp_path: Path,
    used: Used,
    monkeypatch: pytest.MonkeyPatch,
    expected_log_errors: list[str],
) -> None:
    expected_log_errors += ["distributed."]  # they may end with a span that they had begun
    monkeypatch.setenv(HERE, "0")
    plan, events = job_on_gpu("lite", tmp_path, (4, 4, 4)), Events()
    with pretended_gpu() as gpu:
        made(plan, tmp_path / "two", WORKERS, events)
        assert gpu.allocator.limit == 12 * 2**30, "its limit ends with it"
    assert gpu.launches
    assert gpu.used == {0}
    assert not [one for one in used() if one["used"]]
    codes = [one.notice.code for one in events.of(Warned)]
    assert codes == ["worker-left-out", "worker-left-out", "workers-gone"]
