from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.core.errors import UpdateNotInstallable
from engine.jobs.task_runner import TaskRunner
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol.tasks import Task, TaskKind
from engine.protocol.update_state import UpdateState
from engine.updates import service as service_module
from engine.updates.service import UpdateService
from tests.helpers.jobs import TASK_ENDS, Listener, running_engine
from tests.helpers.servers import NEWER, Fault, Release

Ask = Callable[[c.UpdateCommand], e.TaskEvent]


@pytest.fixture
def heard() -> Listener:
    return Listener()


@pytest.fixture
def runner(heard: Listener) -> Iterator[TaskRunner]:
    runner = TaskRunner(heard)
    yield runner
    runner.close(10.0)


@pytest.fixture
def ask(release: Release, heard: Listener, runner: TaskRunner) -> Ask:
    """Runs the task of a command to its end."""
    service = UpdateService()

    def ask(command: c.UpdateCommand) -> e.TaskEvent:
        task = service.answer(command)
        assert isinstance(task, Task)
        runner.start(task)
        return heard.wait(*TASK_ENDS)

    return ask


def known(heard: Listener) -> UpdateState:
    return heard.of(e.UpdateKnown)[-1].state


def test_check_download_and_be_ready(
    ask: Ask, heard: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(ask(c.CheckUpdate()), e.TaskDone)
    assert (known(heard).newer, known(heard).was_checked) == (NEWER, True)
    assert isinstance(ask(c.DownloadUpdate()), e.TaskDone)
    assert known(heard).is_ready
    assert heard.of(e.TaskProgress)[-1].done == pytest.approx(0.1024)
    failed = ask(c.InstallUpdate())  # a checkout is not updated by a setup
    assert isinstance(failed, e.TaskFailed)
    assert failed.error.code == UpdateNotInstallable.code
    assert "git pull" in failed.error.hint
    monkeypatch.setattr(service_module, "check_installable", lambda: None)
    done = ask(c.InstallUpdate())
    assert isinstance(done, e.TaskDone)
    assert done.phase == "install"


def test_showing_asks_no_server(release: Release) -> None:
    (shown,) = UpdateService().answer(c.ShowUpdate())
    state = shown.state
    assert (state.is_in_build, state.was_checked, state.newer) == (True, False, "")
    assert release.server.asked == []


def test_a_second_command_is_refused_and_a_stopped_download_stays(
    ask: Ask, heard: Listener, release: Release, runner: TaskRunner
) -> None:
    ask(c.CheckUpdate())
    release.server.always = Fault(drip=1000)
    download = UpdateService().answer(c.DownloadUpdate())
    assert isinstance(download, Task)
    runner.start(download)
    heard.wait(e.TaskProgress)
    refused = ask(c.CheckUpdate())
    assert isinstance(refused, e.TaskFailed)
    assert refused.error.code == "update-busy"
    runner.stop(TaskKind.UPDATE)
    assert isinstance(heard.wait(*TASK_ENDS), e.TaskStopped)
    assert 0 < known(heard).done_bytes < known(heard).bytes


def test_the_engine_takes_the_commands(release: Release, tmp_path: Path) -> None:
    with running_engine(tmp_path / "jobs") as (engine, heard):
        engine.send(c.CheckUpdate())
        assert isinstance(heard.wait(*TASK_ENDS), e.TaskDone)
        assert known(heard).newer == NEWER
        release.server.always = Fault(drip=100)
        engine.send(c.DownloadUpdate())
        heard.wait(e.TaskProgress)  # and now it is closed in the middle
