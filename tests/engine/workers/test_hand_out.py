"""Jobs whose segments are made by worker processes: equal to one process, whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest
from distributed import KilledWorker, Worker

from engine.core.control import Control
from engine.core.errors import Cancelled, CheckpointMismatch, WeightsError
from engine.jobs.checkpoint import Checkpoint
from engine.pipeline.context import EventSink, JobContext
from engine.pipeline.run import run_job
from engine.pipeline.segments import Span
from engine.protocol.events import (
    Event,
    PreviewReady,
    SegmentDone,
    StageProgress,
    Warned,
    WorkerProgress,
)
from engine.protocol.plan import Plan, WorkerPlan
from engine.video.read.probe import probe
from engine.workers import team
from engine.workers.hand_out import hand_out
from engine.workers.pool import WorkerPool
from engine.workers.worker import JobOrder, SpanWorker
from tests.helpers.jobs import (
    KINDS,
    SEGMENT_FRAMES,
    SHOTS,
    Events,
    plan_of,
    run,
    segment_files,
    settings_of,
)
from tests.helpers.seedvr2 import make_three_shots

pytestmark = pytest.mark.usefixtures("figures_of_published_vaes")


def planned(kind: str, folder: Path, *, shots: tuple[int, ...] = SHOTS) -> Plan:
    film = make_three_shots(folder / "film.mkv", shots, "60x44" if kind == "wan-2x" else "64x48")
    plan = plan_of(film, folder / "out.mkv", settings_of(kind, folder))
    return replace(plan, segment_frames=SEGMENT_FRAMES)


def made_by_one(kind: str, folder: Path, *, shots: tuple[int, ...] = SHOTS) -> Plan:
    """A plan that one process has carried out, in the folder "one"."""
    plan = planned(kind, folder, shots=shots)
    run(plan, folder / "one")
    return plan


def job_of(
    plan: Plan, folder: Path, count: int, events: EventSink, control: Control | None = None
) -> JobContext:
    """A job with worker processes, in a folder."""
    folder.mkdir(exist_ok=True)
    plan = replace(plan, workers=(WorkerPlan(),) * count, output=folder / "out.mkv")
    return JobContext(
        job_id="job",
        media=probe(plan.source),
        plan=plan,
        control=control or Control(),
        events=events,
        hand_out=hand_out,
    )


def with_workers(
    plan: Plan, folder: Path, count: int, events: Events, control: Control | None = None
) -> JobContext:
    """Run one."""
    context = job_of(plan, folder, count, events, control)
    run_job(context, Checkpoint(folder), overwrite=True)
    return context


def children() -> list[psutil.Process]:
    found = []
    for one in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it has just ended, or been killed
            if "spawn_main" in " ".join(one.cmdline()):
                found.append(one)
    return found


def test_two_workers_make_the_segments_of_one_process(tmp_path: Path) -> None:
    plan, events = made_by_one("lite", tmp_path), Events()
    context = with_workers(plan, tmp_path / "two", 2, events)
    assert segment_files(tmp_path / "two") == segment_files(tmp_path / "one")
    assert {one.segment for one in events.of(SegmentDone)} == set(range(5))
    assert not events.of(Warned)
    assert events.of(StageProgress)
    shown = {one.worker for one in events.of(WorkerProgress)}
    assert shown
    assert shown <= {1, 2}  # on a busy machine one of them may come too late
    assert context.workers_peak_bytes > 2**27
    assert not children()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 2, 4])
def test_any_number_of_workers(kind: str, count: int, tmp_path: Path) -> None:
    plan = made_by_one(kind, tmp_path)
    with_workers(replace(plan, span_segments=2), tmp_path / "several", count, Events())
    assert segment_files(tmp_path / "several") == segment_files(tmp_path / "one")


@pytest.mark.slow
@pytest.mark.usefixtures("deaths")
def test_a_worker_that_is_killed_loses_its_span_only(tmp_path: Path) -> None:
    killed: list[int] = []

    def kill_once(event: Event) -> None:
        if isinstance(event, SegmentDone) and not killed:
            busiest = max(children(), key=lambda child: child.cpu_times().user)
            killed.append(busiest.pid)
            os.kill(killed[0], signal.SIGKILL)

    plan, events = made_by_one("lite", tmp_path, shots=(16, 16, 16)), Events(answer=kill_once)
    with_workers(replace(plan, span_segments=2), tmp_path / "two", 2, events)
    assert killed
    assert segment_files(tmp_path / "two") == segment_files(tmp_path / "one")
    done = [one.segment for one in events.of(SegmentDone)]
    assert sorted(done) == list(range(12))
    assert not events.of(Warned)


class DyingWorker(SpanWorker):
    """Its first processes die, each with its first segment; those after the first take a while to
    start, or do not start at all.

    Args:
        order: Order that every worker gets.
        deaths: Number of processes that die.
        starts: Called as a process starts that is not the first.
    """

    def __init__(
        self, order: JobOrder, *, deaths: int, starts: Callable[[], object] | None = None
    ) -> None:
        super().__init__(order)
        self._deaths, self._starts = deaths, starts

    def setup(self, worker: Worker) -> None:
        super().setup(worker)
        if self._starts is not None and self._before():
            self._starts()

    def delivered(self, path: Path, number: int) -> None:
        if (before := self._before()) < self._deaths:
            (self._order.folder / f"death-{before}").touch()
            os._exit(1)

    def _before(self) -> int:
        return len(list(self._order.folder.glob("death-*")))


def with_deaths(
    plan: Plan, folder: Path, deaths: int, starts: Callable[[], object] | None = None
) -> list[str]:
    """Codes of the warnings of a job with one worker; it is cancelled if it goes on for ever."""
    events, control = Events(), Control()
    context = job_of(plan, folder, 1, events, control)
    context.hand_out = partial(hand_out, worker=partial(DyingWorker, deaths=deaths, starts=starts))
    too_long = threading.Timer(150.0, control.cancel)
    too_long.start()
    try:
        run_job(context, Checkpoint(folder), overwrite=True)
    finally:
        too_long.cancel()
    assert segment_files(folder) == segment_files(folder.parent / "one")
    assert not children()
    return [one.notice.code for one in events.of(Warned)]


@pytest.mark.slow
@pytest.mark.usefixtures("deaths")
def test_a_worker_that_dies_three_times_is_left_out(tmp_path: Path) -> None:
    plan = made_by_one("lite", tmp_path)
    assert with_deaths(plan, tmp_path / "two", 3) == ["worker-left-out", "workers-gone"]


@pytest.mark.slow
@pytest.mark.usefixtures("deaths")
def test_a_worker_that_takes_long_to_start_again_is_waited_for(tmp_path: Path) -> None:
    plan = made_by_one("lite", tmp_path)
    assert not with_deaths(plan, tmp_path / "two", 1, partial(time.sleep, 18.0))


@pytest.mark.slow
@pytest.mark.usefixtures("deaths")
@pytest.mark.parametrize(
    "starts", [partial(time.sleep, 3600.0), partial(os._exit, 1)], ids=["hangs", "dies"]
)
def test_a_worker_that_never_starts_again_is_not_waited_for(
    starts: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(team, "LOADING_S", 45.0)
    plan = made_by_one("lite", tmp_path)
    codes = with_deaths(plan, tmp_path / "two", 1, starts)
    assert codes == ["worker-left-out", "workers-gone"]


class LateWorker(SpanWorker):
    """The first process of worker 1 has the order of a job that has ended."""

    def setup(self, worker: Worker) -> None:
        super().setup(worker)
        mark = self._order.folder / "first"
        if int(worker.name) == 0 and not mark.exists():
            mark.touch()
            self._order = replace(self._order, job_id="an earlier one")


@pytest.mark.slow
@pytest.mark.usefixtures("deaths")
def test_a_worker_of_another_job_ends_and_its_span_is_made_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.workers.team._GONE_S", 120.0)  # it starts next to other tests
    plan, events = made_by_one("lite", tmp_path), Events()
    context = job_of(plan, tmp_path / "two", 2, events)
    context.hand_out = partial(hand_out, worker=LateWorker)
    run_job(context, Checkpoint(tmp_path / "two"), overwrite=True)
    assert (tmp_path / "two" / "first").exists()
    assert segment_files(tmp_path / "two") == segment_files(tmp_path / "one")
    assert not events.of(Warned), "none is left out, and nothing left to this process"


LONG = (40, 40, 40)


class StallingWorker(SpanWorker):
    """Takes a while for each span; some workers stall in their second one, connected as before."""

    def __init__(
        self, order: JobOrder, *, stalling: tuple[int, ...] = (), seconds: float = 0.2
    ) -> None:
        super().__init__(order)
        self._stalling, self._seconds, self._spans_begun = stalling, seconds, 0

    def make(self, span: Span) -> PreviewReady | None:
        if self._number in self._stalling and self._spans_begun:
            (self._order.folder / "stalled").touch()
            threading.Event().wait()
        self._spans_begun += 1
        time.sleep(self._seconds)
        return super().make(span)


@pytest.mark.slow
@pytest.mark.usefixtures("deaths")
@pytest.mark.parametrize("stalling", [(0,), (0, 1)], ids=["one", "all"])
def test_a_worker_that_stalls_delays_no_job(
    stalling: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(team, "_LEAST_S", 0.5)
    plan, events = made_by_one("lite", tmp_path, shots=LONG), Events()
    context = job_of(plan, tmp_path / "two", 2, events)
    context.hand_out = partial(hand_out, worker=partial(StallingWorker, stalling=stalling))
    run_job(context, Checkpoint(tmp_path / "two"), overwrite=True)
    (tmp_path / "two" / "stalled").unlink()
    assert segment_files(tmp_path / "two") == segment_files(tmp_path / "one")
    assert not children()
    notices = [one.notice for one in events.of(Warned)]
    late = {one.params["worker"] for one in notices if one.code == "worker-late"}
    assert late == {str(number + 1) for number in stalling}
    assert ("workers-gone" in {one.code for one in notices}) == (len(stalling) == 2)


@pytest.mark.slow
def test_a_cancelled_job_goes_on_where_it_was(tmp_path: Path) -> None:
    control, plan = Control(), planned("seedvr2", tmp_path)
    run(plan, tmp_path / "one")

    def cancel(event: Event) -> None:
        if isinstance(event, SegmentDone):
            control.cancel()

    with pytest.raises(Cancelled):
        with_workers(plan, tmp_path / "two", 2, Events(answer=cancel), control)
    assert not children()
    assert not list((tmp_path / "two").glob("*.part"))
    before = Checkpoint(tmp_path / "two")
    assert 0 < before.frames < sum(SHOTS)
    events = Events()
    with_workers(plan, tmp_path / "two", 2, events)
    known = {one.number for one in (*before.records, *before.ahead)}
    assert {one.segment for one in events.of(SegmentDone)} == set(range(5)) - known
    assert segment_files(tmp_path / "two") == segment_files(tmp_path / "one")


@pytest.mark.slow
def test_a_pause_reaches_the_workers(tmp_path: Path) -> None:
    control, plan = Control(), planned("lite", tmp_path, shots=(40, 40, 40))
    times: list[tuple[float, int]] = []
    resumed: list[float] = []

    def pause(event: Event) -> None:
        if isinstance(event, SegmentDone):
            times.append((time.monotonic(), event.segment))
            if len(times) == 1:
                control.pause()
                threading.Timer(
                    3.0, lambda: (resumed.append(time.monotonic()), control.resume())
                ).start()

    with_workers(plan, tmp_path / "two", 2, Events(answer=pause), control)
    begin = times[0][0]
    assert not [at for at, _ in times if begin + 1.5 < at < resumed[0]]
    assert len(times) == 30


@pytest.mark.slow
def test_a_worker_that_comes_after_a_job_is_resumed_works(tmp_path: Path) -> None:
    plan, control = planned("lite", tmp_path), Control()
    run(plan, tmp_path / "one")
    context = job_of(plan, tmp_path / "two", 1, Events(), control)
    control.pause()
    threading.Timer(0.5, control.resume).start()  # before any worker is there
    hand_out(context, Checkpoint(tmp_path / "two"))
    assert segment_files(tmp_path / "two") == segment_files(tmp_path / "one")


COORDINATOR = """
import sys
from pathlib import Path
from tests.engine.workers.test_hand_out import planned, with_workers
from tests.helpers.jobs import Events
from engine.protocol.events import SegmentDone

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    say = lambda event: print("done", flush=True) if isinstance(event, SegmentDone) else None
    with_workers(planned("lite", folder, shots=(40, 40, 40)), folder / "two", 2, Events(answer=say))
"""


@pytest.mark.slow
def test_no_worker_outlives_its_job(tmp_path: Path) -> None:
    script = tmp_path / "coordinator.py"
    script.write_text(COORDINATOR, encoding="utf-8")
    root = Path(__file__).parents[3]
    words = [sys.executable, str(script), str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": str(root)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == "done\n"
        workers = psutil.Process(job.pid).children(recursive=True)
        assert len(workers) >= 2
        job.kill()
    _, alive = psutil.wait_procs(workers, timeout=5)
    assert not alive
    kept = Checkpoint(tmp_path / "two").frames
    assert kept > 0
    plan, events = made_by_one("lite", tmp_path, shots=(40, 40, 40)), Events()
    with_workers(plan, tmp_path / "two", 2, events)
    assert len(events.of(SegmentDone)) == 30 - kept // SEGMENT_FRAMES
    assert segment_files(tmp_path / "two") == segment_files(tmp_path / "one")


def test_a_worker_that_dies_with_several_spans_has_failed_once(tmp_path: Path) -> None:
    def died(address: str) -> Any:
        def result() -> None:
            raise KilledWorker("a span", SimpleNamespace(name="1", address=address), 0)

        return SimpleNamespace(status="error", result=result, done=lambda: True)

    pool = WorkerPool(cast(Any, None), tmp_path, 2, lambda found: None)
    found = [pool.outcome_of(died(address))[0] for address in ("a", "a", "a", "b")]
    assert found == [1, None, None, 1]


def test_an_error_of_a_worker_that_has_gone_meanwhile_ends_no_job(
    tmp_path: Path, expected_log_errors: list[str]
) -> None:
    def result() -> None:
        raise KeyError("a mistake")

    expected_log_errors.append("engine.workers.pool")
    pool: Any = WorkerPool(cast(Any, None), tmp_path, 2, lambda found: None)
    pool._scheduler = SimpleNamespace(tasks={})
    future = SimpleNamespace(status="error", key="a span", result=result, done=lambda: True)
    number, why = pool.outcome_of(future)
    assert number is None
    assert "KeyError" in str(why)


def test_a_preview_that_has_gone_with_its_worker_ends_no_job(tmp_path: Path) -> None:
    def gone(timeout: float) -> None:
        raise TimeoutError(timeout)

    pool = WorkerPool(cast(Any, None), tmp_path, 2, lambda found: None)
    assert pool.preview_of(cast(Any, SimpleNamespace(result=gone))) is None


@pytest.mark.extended
def test_a_source_that_changes_ends_a_job_of_workers(tmp_path: Path) -> None:
    plan, changed = made_by_one("lite", tmp_path), threading.Event()

    def change(event: Event) -> None:
        if isinstance(event, SegmentDone) and not changed.is_set():
            changed.set()
            with plan.source.open("ab") as film:
                film.write(bytes(100))

    context = job_of(plan, tmp_path / "two", 1, Events(answer=change))
    with pytest.raises(CheckpointMismatch):
        run_job(context, Checkpoint(tmp_path / "two"), overwrite=True)
    assert changed.is_set()
    assert 0 < len(Checkpoint(tmp_path / "two").records) < 5
    assert not context.plan.output.exists()
    assert not children()


@pytest.mark.extended
def test_an_error_that_every_worker_has_ends_the_job(tmp_path: Path) -> None:
    plan = planned("seedvr2", tmp_path)
    Path(plan.work.weights_files[0].path).unlink()
    context = job_of(plan, tmp_path / "two", 1, Events())
    with pytest.raises(WeightsError):
        hand_out(context, Checkpoint(tmp_path / "two"))
    assert not children()
