import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import api
from engine.core.control import Control
from engine.core.errors import UpdateDamaged, UpdateMissing, UpdateNotInstallable
from engine.delivery import manifest
from engine.delivery import updates as service_module
from engine.delivery.updates import UpdateService, UpdateStore
from engine.files import transfer
from engine.jobs.task_runner import TaskRunner
from engine.protocol import commands as c
from engine.protocol import events as e
from engine.protocol.delivery import UpdateState
from engine.protocol.tasks import TaskKind
from tests.helpers.jobs import TASK_ENDS, Listener, running_engine
from tests.helpers.servers import NEWER, Fault, Release

Start = Callable[[c.UpdateCommand], None]


@pytest.fixture
def runner(heard: Listener) -> Iterator[TaskRunner]:
    runner = TaskRunner(heard)
    yield runner
    runner.close(10.0)


@pytest.fixture
def start(release: Release, runner: TaskRunner) -> Start:
    """Starts the task of a command."""
    service = UpdateService()
    return lambda command: runner.start(service.answer(command))


def known(heard: Listener) -> UpdateState:
    return heard.of(e.UpdateKnown)[-1].state


def test_check_download_and_be_ready(
    start: Start, heard: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(c.CheckUpdate())
    heard.done()
    assert (known(heard).newer, known(heard).was_checked) == (NEWER, True)
    start(c.DownloadUpdate())
    heard.done()
    assert known(heard).is_ready
    assert heard.of(e.TaskProgress)[-1].done == pytest.approx(0.1024)
    start(c.InstallUpdate())
    failed = heard.failed()  # a checkout is not updated by a setup
    assert failed.error.code == UpdateNotInstallable.code
    assert "git pull" in failed.error.hint
    monkeypatch.setattr(service_module, "check_installable", lambda: None)
    start(c.InstallUpdate())
    assert heard.done().phase == "install"


def test_showing_asks_no_server(release: Release) -> None:
    (shown,) = UpdateService().answer(c.ShowUpdate())
    state = shown.state
    assert (state.is_in_build, state.was_checked, state.newer) == (True, False, "")
    assert release.server.asked == []


def test_a_second_command_is_refused_and_a_stopped_download_stays(
    start: Start, heard: Listener, release: Release, runner: TaskRunner
) -> None:
    start(c.CheckUpdate())
    heard.done()
    release.server.always = Fault(drip=1000)
    start(c.DownloadUpdate())
    heard.wait(e.TaskProgress)
    start(c.CheckUpdate())
    assert heard.failed().error.code == "update-busy"
    runner.stop(TaskKind.UPDATE)
    assert isinstance(heard.wait(*TASK_ENDS), e.TaskStopped)
    assert 0 < known(heard).done_bytes < known(heard).bytes


def test_the_engine_takes_the_commands(release: Release, tmp_path: Path) -> None:
    with running_engine(tmp_path / "jobs") as (engine, heard):
        engine.send(c.CheckUpdate())
        heard.done()
        assert known(heard).newer == NEWER
        release.server.always = Fault(drip=100)
        engine.send(c.DownloadUpdate())
        heard.wait(e.TaskProgress)  # and now it is closed in the middle


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], dict[str, Any]]]:
    found: list[tuple[list[str], dict[str, Any]]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda words, **more: found.append((words, more)))
    return found


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "installed_as", lambda: "setup")


@pytest.fixture
def setup(release: Release) -> Path:
    """A downloaded setup."""
    store = UpdateStore()
    store.check(Control())
    store.download(transfer.Listener())
    with store.ready() as path:
        return path


@pytest.mark.usefixtures("installed")
def test_it_is_started_for_itself(setup: Path, started: list[Any]) -> None:
    assert api.start_update() == setup
    ((words, more),) = started
    assert words == [str(setup), "/UPDATE"]
    assert more["cwd"] == str(setup.parent)  # ours is about to be replaced
    assert more["env"]["PYINSTALLER_RESET_ENVIRONMENT"] == "1"
    assert more["stdout"] == subprocess.DEVNULL


@pytest.mark.usefixtures("installed")
def test_a_changed_one_is_not(setup: Path, started: list[Any]) -> None:
    setup.write_bytes(setup.read_bytes()[:-1] + b"!")
    with pytest.raises(UpdateDamaged):
        api.start_update()
    with pytest.raises(UpdateMissing, match=NEWER):  # it was deleted
        api.start_update()
    assert started == []


def test_other_copies_get_a_hint(
    setup: Path, started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for how, what in (("portable", "new archive"), ("sources", "git pull")):
        monkeypatch.setattr(manifest, "installed_as", lambda how=how: how)
        with pytest.raises(UpdateNotInstallable) as refused:
            api.start_update()
        assert what in refused.value.hint
    assert started == []


@pytest.mark.usefixtures("installed")
def test_a_system_that_refuses_is_reported(setup: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(UpdateNotInstallable, match="could not be started: Permission denied"):
        api.start_update()
