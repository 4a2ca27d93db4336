"""The setup is started as the last thing, and only if it is the published one."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from engine import api
from engine.core.control import Control
from engine.core.errors import UpdateDamaged, UpdateMissing, UpdateNotInstallable
from engine.downloads.transfer import Listener
from engine.updates import installer
from engine.updates.store import UpdateStore
from tests.helpers.servers import NEWER, Release


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], dict[str, Any]]]:
    found: list[tuple[list[str], dict[str, Any]]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda words, **more: found.append((words, more)))
    return found


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installer, "installed_as", lambda: "setup")


@pytest.fixture
def setup(release: Release) -> Path:
    """A downloaded setup."""
    store = UpdateStore()
    store.check(Control())
    store.download(Listener())
    return store.ready()


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
        monkeypatch.setattr(installer, "installed_as", lambda how=how: how)
        with pytest.raises(UpdateNotInstallable) as refused:
            api.start_update()
        assert what in refused.value.hint
    assert started == []


@pytest.mark.usefixtures("installed")
def test_a_system_that_refuses_is_reported(setup: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(UpdateNotInstallable, match="does not start: Permission denied"):
        api.start_update()
