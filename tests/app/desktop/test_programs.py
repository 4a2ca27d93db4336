import sys
from pathlib import Path

import pytest

from app import desktop

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the names are Linux's")


def test_a_command_becomes_words_without_a_shell(tmp_path: Path) -> None:
    program = tmp_path / "my tool"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    found = desktop.command_words(f'"{program}" C:\\films "to me" $HOME; rm *')
    assert found == [str(program), "C:\\films", "to me", "$HOME;", "rm", "*"]
    assert Path(desktop.command_words("sh -c true")[0]).is_absolute()
    for nothing in ("", "  ", '""', "no-such-program-here", str(tmp_path)):
        assert desktop.command_words(nothing) == [], nothing


def test_sleep_and_shut_down_are_those_of_systemd(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not desktop.sleep(), "there is no systemctl"
    assert not desktop.shut_down()
    monkeypatch.setattr(desktop, "start_program", lambda words: words)
    assert desktop.sleep() == ["systemctl", "suspend"]
    assert desktop.shut_down() == ["systemctl", "poweroff"]
