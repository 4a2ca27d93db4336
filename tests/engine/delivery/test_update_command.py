"""`update` on the real engine, with a server on loopback."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from engine import __version__
from engine.cli.main import main
from engine.delivery import manifest
from tests.helpers.servers import NEWER, SETUP, Fault, Release

Output = pytest.CaptureFixture[str]


@pytest.mark.usefixtures("release")
def test_check_and_download(capsys: Output) -> None:
    assert main(["update", "check"]) == 0
    found = f"Upreel {NEWER} of 2026-12-01; 102 kB to download. You have {__version__}."
    assert found in capsys.readouterr().out
    assert main(["update", "download"]) == 0
    text = capsys.readouterr().out
    assert "its setup is downloaded" in text
    assert "- Faster." in text
    assert main(["update", "check", "--json"]) == 0
    state = json.loads(capsys.readouterr().out)
    assert (state["newer"], state["is_ready"], state["bytes"]) == (NEWER, True, len(SETUP))
    assert main(["update", "install"]) == 1
    assert "error[update-not-installable]" in capsys.readouterr().err, "it is a checkout"


def test_nothing_newer_is_good_news(release: Release, capsys: Output) -> None:
    release.publish(__version__)
    for verb in ("check", "download", "install"):
        assert main(["update", verb]) == 0
        assert f"Upreel {__version__} is the newest version." in capsys.readouterr().out


def test_install_loads_and_starts(
    release: Release, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []
    monkeypatch.setattr(subprocess, "Popen", lambda words, **_: started.append(words))
    monkeypatch.setattr(manifest, "installed_as", lambda: "setup")
    assert main(["update", "install"]) == 0
    assert [Path(words[0]).name for words in started] == [f"upreel-{NEWER}-setup.exe"]
    assert "was started. Close all" in capsys.readouterr().err


def test_failures_have_a_code_and_a_status(release: Release, capsys: Output) -> None:
    release.server.always = Fault(status=404)
    assert main(["update", "check"]) == 1
    assert "error[update-unreachable]: 127.0.0.1 could not be asked" in capsys.readouterr().err
    assert main(["update", "check", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "update-unreachable"
