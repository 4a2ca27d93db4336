"""What holds for tasks of every kind."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engine.core.errors import DiskFull, RuntimeBusy
from engine.core.messages import message
from engine.jobs import task_runner
from engine.jobs.task_runner import Outcome, RunningTask, Task, TaskRunner
from engine.protocol import events as e
from engine.protocol.plan import Notice
from engine.protocol.tasks import TaskKind
from tests.helpers.jobs import TASK_ENDS, Listener

KIND = TaskKind.MODEL_FILE


@pytest.fixture
def runner(heard: Listener) -> Iterator[TaskRunner]:
    runner = TaskRunner(heard)
    yield runner
    runner.close(5.0)
    assert not {thread.name for thread in threading.enumerate()}.intersection(TaskKind)


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    gate = threading.Event()
    yield gate
    gate.set()


def task(do: Callable[[RunningTask], Outcome | None], **about: Any) -> Task:
    return Task(**{"kind": KIND, "subject": "a", "phase": "download", "do": do, **about})


def waits_for(gate: threading.Event) -> Callable[[RunningTask], None]:
    def do(work: RunningTask) -> None:
        work.step(0, 1, message("bench.step.read"))
        while not gate.wait(0.01):
            work.control.check()

    return do


def test_a_task_reports_progress_phases_and_its_end(runner: TaskRunner, heard: Listener) -> None:
    notice = Notice(code="own-weights", severity="warning", params={"title": "a"})

    def do(work: RunningTask) -> Outcome:
        work.progress(5_000_000, 5_000_000)
        work.begin("unpack", "b")
        work.step(1, 3, message("bench.step.read"))
        return Outcome(notice=notice)

    runner.start(task(do))
    done = heard.done()
    assert (done.subject, done.phase, done.notice) == ("b", "unpack", notice)
    seen = [(p.subject, p.phase, p.done, p.total, p.step) for p in heard.of(e.TaskProgress)]
    assert seen == [
        ("a", "download", 0, 0, None),  # it waits
        ("a", "download", 5, 5, None),
        ("b", "unpack", 0, 0, None),
        ("b", "unpack", 1, 3, message("bench.step.read")),
    ]


def test_progress_is_metered_and_tells_the_speed(
    runner: TaskRunner, heard: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_runner, "_PROGRESS_EVERY_S", 0.05)

    def do(work: RunningTask) -> None:
        for done in range(200):
            work.progress(done * 10**6, 10**9)
            time.sleep(0.001)

    runner.start(task(do))
    heard.wait(*TASK_ENDS)
    reported = heard.of(e.TaskProgress)[1:]
    assert 2 <= len(reported) < 50
    last = reported[-1]
    assert last.per_second > 0
    assert last.seconds_left == pytest.approx((1000 - last.done) / last.per_second)


def test_an_error_ends_the_task_and_not_the_lane(
    runner: TaskRunner, heard: Listener, expected_log_errors: list[str]
) -> None:
    expected_log_errors.append("model-file download a")
    for error, code in (
        (DiskFull("folder", folder="/films"), "disk-full"),
        (ValueError("x"), "internal-error"),
    ):

        def do(work: RunningTask, error: Exception = error) -> None:
            raise error

        runner.start(task(do))
        failed = heard.failed()
        assert failed.error.code == code
    runner.start(task(lambda work: None))
    heard.done()


def test_the_changed_state_is_emitted_before_the_end_and_an_unreadable_one_does_not_hide_it(
    runner: TaskRunner, heard: Listener, expected_log_errors: list[str]
) -> None:
    expected_log_errors.append("state after")
    listed = e.ModelFilesListed(files=(), free_mb=1.0)
    runner.start(task(lambda work: None, state=lambda: listed))
    heard.wait(*TASK_ENDS)
    assert heard.of(e.ModelFilesListed) == [listed]
    runner.start(task(lambda work: None, state=lambda: 1 / 0))
    heard.done()


def test_tasks_of_a_kind_wait_for_each_other_and_other_kinds_do_not(
    runner: TaskRunner, heard: Listener, gate: threading.Event
) -> None:
    runner.start(task(waits_for(gate)))
    runner.start(task(lambda work: None, subject="b"))
    runner.start(task(lambda work: None, kind=TaskKind.UPDATE, subject=""))
    runner.start(task(lambda work: None, subject="c", turn="at-once"))
    assert {heard.wait(*TASK_ENDS).subject for _ in range(2)} == {"", "c"}
    gate.set()
    assert [heard.wait(*TASK_ENDS).subject for _ in range(2)] == ["a", "b"]
    time.sleep(0.05)
    assert not runner.runs(KIND)


def test_a_second_task_is_refused_where_none_waits(
    runner: TaskRunner, heard: Listener, gate: threading.Event
) -> None:
    def busy(running: str) -> RuntimeBusy:
        return RuntimeBusy("at-work", runtime=running)

    runner.start(task(waits_for(gate), busy=busy))
    runner.start(task(lambda work: None, subject="b", busy=busy))
    refused = heard.failed()
    assert (refused.subject, refused.error.message) == (
        "b",
        "Another Upreel is already working on the NVIDIA runtime a.",
    )
    assert all(progress.step for progress in heard.of(e.TaskProgress)), "neither waits"
    gate.set()
    heard.done()


def test_of_those_that_wait_only_the_latest_runs(
    runner: TaskRunner, heard: Listener, gate: threading.Event
) -> None:
    runner.start(task(waits_for(gate), turn="replaces"))
    heard.wait(e.TaskProgress)
    for name in "bcc":
        runner.start(task(lambda work: None, subject=name, turn="replaces"))
    gate.set()
    assert [heard.wait(*TASK_ENDS).subject for _ in range(2)] == ["a", "c"]
    time.sleep(0.05)
    assert not runner.runs(KIND)


def test_stop_ends_what_runs_and_what_waits(
    runner: TaskRunner, heard: Listener, gate: threading.Event
) -> None:
    for name in "abc":
        runner.start(task(waits_for(gate), subject=name))
    runner.stop(KIND, "b")
    assert heard.wait(*TASK_ENDS).subject == "b"
    runner.stop(KIND)
    stopped = [heard.wait(*TASK_ENDS) for _ in range(2)]
    assert sorted(event.subject for event in stopped) == ["a", "c"]
    assert {type(event) for event in stopped} == {e.TaskStopped}
    runner.stop(KIND)  # nothing is left to stop


def test_a_stopped_task_has_stopped_whatever_error_ends_it(
    runner: TaskRunner, heard: Listener, gate: threading.Event
) -> None:
    def loses_its_files(work: RunningTask) -> None:
        work.step(0, 1, message("bench.step.read"))
        gate.wait(5)
        raise FileNotFoundError

    runner.start(task(loses_its_files))
    while not heard.wait(e.TaskProgress).step:
        pass
    runner.stop(KIND)
    gate.set()
    assert isinstance(heard.wait(*TASK_ENDS), e.TaskStopped)


def test_the_end_of_a_task_may_be_answered_by_the_next_one() -> None:
    """A window hears "stopped" while the thread that emits it still lives."""

    def answer(event: e.Event) -> None:
        if isinstance(event, TASK_ENDS) and event.subject == "a":
            assert not runner.runs(KIND)
            runner.start(task(lambda work: None, subject="b", busy=lambda _: RuntimeBusy("x")))

    heard = Listener(answer)
    runner = TaskRunner(heard)
    runner.start(task(lambda work: None, busy=lambda _: RuntimeBusy("x")))
    assert [heard.wait(*TASK_ENDS).subject for _ in range(2)] == ["a", "b"]
    runner.close(5.0)


def test_closing_cancels_what_runs(heard: Listener, gate: threading.Event) -> None:
    runner = TaskRunner(heard)
    runner.start(task(waits_for(gate)))
    runner.start(task(waits_for(gate), subject="b"))
    while not heard.wait(e.TaskProgress).step:
        pass
    begin = time.monotonic()
    runner.close(5.0)
    assert time.monotonic() - begin < 2
    assert isinstance(heard.wait(*TASK_ENDS), e.TaskStopped)
    assert not runner.runs(KIND)
