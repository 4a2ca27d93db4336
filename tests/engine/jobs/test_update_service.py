from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.core.update_errors import UpdateNotInstallable
from engine.jobs import update_service
from engine.jobs.update_service import UpdateDesk
from engine.protocol import update_messages as m
from engine.protocol.events import Event
from tests.helpers.faulty_server import Fault, faulty_server
from tests.helpers.listening import Listener, running_engine
from tests.helpers.updates import NEWER, Release

ENDS = (m.UpdateDone, m.UpdateFailed, m.UpdateStopped)


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Release]:
    with faulty_server() as server:
        release = Release(server)
        monkeypatch.setenv("UPREEL_RESOURCES", str(release.build(tmp_path / "resources")))
        monkeypatch.delenv("UPREEL_UPDATES", raising=False)
        release.publish()
        yield release


@pytest.fixture
def heard() -> Listener:
    return Listener()


@pytest.fixture
def desk(release: Release, heard: Listener) -> Iterator[UpdateDesk]:
    desk = UpdateDesk(heard)
    yield desk
    desk.close(10.0)
    assert "update" not in {thread.name for thread in threading.enumerate()}


def ended(desk: UpdateDesk, heard: Listener, command: m.UpdateCommand) -> m.UpdateEvent:
    desk.answer(command)
    return heard.wait(*ENDS)


def known(heard: Listener) -> m.UpdateState:
    return heard.of(m.UpdateKnown)[-1].state


def test_look_load_and_be_ready(
    desk: UpdateDesk, heard: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(ended(desk, heard, m.CheckUpdate()), m.UpdateDone)
    assert (known(heard).newer, known(heard).was_checked) == (NEWER, True)
    assert isinstance(ended(desk, heard, m.DownloadUpdate()), m.UpdateDone)
    assert known(heard).is_ready
    assert heard.of(m.UpdateProgress)[-1].done_mb == pytest.approx(0.1024)
    monkeypatch.setattr(update_service, "check_installable", lambda: None)
    done = ended(desk, heard, m.InstallUpdate())
    assert isinstance(done, m.UpdateDone)
    assert done.phase == "install"


def test_showing_asks_nobody(desk: UpdateDesk, heard: Listener, release: Release) -> None:
    desk.answer(m.ShowUpdate())
    state = heard.wait(m.UpdateKnown).state
    assert (state.is_in_build, state.was_checked, state.newer) == (True, False, "")
    assert release.server.asked == []


def test_sources_are_not_updated_by_a_setup(desk: UpdateDesk, heard: Listener) -> None:
    ended(desk, heard, m.CheckUpdate())
    ended(desk, heard, m.DownloadUpdate())
    failed = ended(desk, heard, m.InstallUpdate())
    assert isinstance(failed, m.UpdateFailed)
    assert failed.error.code == UpdateNotInstallable.code
    assert "git pull" in failed.error.hint


def test_a_setup_that_was_changed_meanwhile_never_starts(
    desk: UpdateDesk, heard: Listener, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(update_service, "check_installable", lambda: None)
    ended(desk, heard, m.CheckUpdate())
    ended(desk, heard, m.DownloadUpdate())
    (setup,) = desk._store.folder.glob("*.exe")
    setup.write_bytes(b"MZ")
    failed = ended(desk, heard, m.InstallUpdate())
    assert isinstance(failed, m.UpdateFailed)
    assert failed.error.code == "update-damaged"
    assert not known(heard).is_ready


def test_one_at_a_time_and_stop(desk: UpdateDesk, heard: Listener, release: Release) -> None:
    ended(desk, heard, m.CheckUpdate())
    release.server.always = Fault(drip=1000)
    desk.answer(m.DownloadUpdate())
    heard.wait(m.UpdateProgress)
    refused = ended(desk, heard, m.CheckUpdate())
    assert isinstance(refused, m.UpdateFailed)
    assert refused.error.code == "update-busy"
    assert isinstance(ended(desk, heard, m.StopUpdate()), m.UpdateStopped)
    assert 0 < known(heard).done_bytes < known(heard).bytes


def test_the_end_of_one_wish_may_be_answered_by_the_next(release: Release) -> None:
    """A page hears "done" while the thread that said it still lives."""

    def answer(event: Event) -> None:
        if isinstance(event, m.UpdateDone) and event.phase == "check":
            desk.answer(m.DownloadUpdate())

    heard = Listener(answer)
    desk = UpdateDesk(heard)
    desk.answer(m.CheckUpdate())
    assert isinstance(heard.wait(*ENDS), m.UpdateDone)
    done = heard.wait(*ENDS)
    assert isinstance(done, m.UpdateDone)
    assert done.phase == "download"
    assert known(heard).is_ready
    desk.close(10.0)


def test_a_mistake_of_ours_ends_the_task_and_not_the_desk(
    desk: UpdateDesk,
    heard: Listener,
    expected_log_errors: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected_log_errors.append("check of the update")
    with monkeypatch.context() as patch:
        patch.setattr(desk._store, "check", lambda control: 1 / 0)
        failed = ended(desk, heard, m.CheckUpdate())
    assert isinstance(failed, m.UpdateFailed)
    assert failed.error.code == "internal-error"
    assert isinstance(ended(desk, heard, m.CheckUpdate()), m.UpdateDone)


def test_the_engine_takes_the_commands(release: Release, tmp_path: Path) -> None:
    with running_engine(tmp_path / "jobs") as (engine, heard):
        engine.send(m.CheckUpdate())
        assert isinstance(heard.wait(*ENDS), m.UpdateDone)
        assert known(heard).newer == NEWER
        release.server.always = Fault(drip=100)
        engine.send(m.DownloadUpdate())
        heard.wait(m.UpdateProgress)  # and now it is closed in the middle
