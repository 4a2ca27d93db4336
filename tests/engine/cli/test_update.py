"""`update` on the real engine, with a server on loopback."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import __version__
from engine.cli.main import main
from engine.updates import installer
from tests.helpers.faulty_server import Fault, faulty_server
from tests.helpers.updates import NEWER, SETUP, Release

Output = pytest.CaptureFixture[str]


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Release]:
    with faulty_server() as server:
        release = Release(server)
        release.publish()
        monkeypatch.setenv("UPREEL_RESOURCES", str(release.build(tmp_path / "resources")))
        monkeypatch.delenv("UPREEL_UPDATES", raising=False)
        yield release


def said(capsys: Output) -> str:
    return capsys.readouterr().out


@pytest.mark.usefixtures("release")
def test_check_and_download(capsys: Output) -> None:
    assert main(["update", "check"]) == 0
    assert f"Upreel {NEWER} of 2026-12-01; 102 kB to load. You have {__version__}." in said(capsys)
    assert main(["update", "download"]) == 0
    text = said(capsys)
    assert "its setup is here" in text
    assert "- Faster." in text
    assert main(["update", "check", "--json"]) == 0
    state = json.loads(said(capsys))
    assert (state["newer"], state["is_ready"], state["bytes"]) == (NEWER, True, len(SETUP))


def test_nothing_newer_is_good_news(release: Release, capsys: Output) -> None:
    release.publish(__version__)
    for verb in ("check", "download", "install"):
        assert main(["update", verb]) == 0
        assert f"Upreel {__version__} is the newest version." in said(capsys)


@pytest.mark.usefixtures("release")
def test_a_checkout_is_not_installed_over(capsys: Output) -> None:
    assert main(["update", "install"]) == 1
    assert "error[update-not-installable]" in capsys.readouterr().err


def test_install_loads_and_starts(
    release: Release, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []
    monkeypatch.setattr(subprocess, "Popen", lambda words, **_: started.append(words))
    monkeypatch.setattr(installer, "installed_as", lambda: "setup")
    monkeypatch.setattr("engine.updates.build.installed_as", lambda: "setup")
    assert main(["update", "install"]) == 0
    assert [Path(words[0]).name for words in started] == [f"upreel-{NEWER}-setup.exe"]
    assert "is started. Close Upreel" in capsys.readouterr().err


def test_failures_have_a_code_and_a_status(release: Release, capsys: Output) -> None:
    release.server.always = Fault(status=404)
    assert main(["update", "check"]) == 1
    assert "error[update-unreachable]: 127.0.0.1 does not give" in capsys.readouterr().err
    assert main(["update", "check", "--json"]) == 1
    assert json.loads(said(capsys))["error"]["code"] == "update-unreachable"


def test_the_version_can_be_asked_for(capsys: Output) -> None:
    assert main(["--version"]) == 0
    assert said(capsys) == f"Upreel {__version__}\n"
