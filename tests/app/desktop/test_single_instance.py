"""A second start gives its files to the first."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtNetwork import QLocalSocket
from pytestqt.qtbot import QtBot

from app.desktop.single_instance import SingleInstance


@pytest.fixture
def first(qapp: object, tmp_path: Path) -> Iterator[SingleInstance]:
    made = SingleInstance(tmp_path)
    assert made.begin([])
    yield made
    made.end()


LATER = """
import sys
from pathlib import Path
from PySide6.QtCore import QCoreApplication
from app.desktop.single_instance import SingleInstance
app = QCoreApplication([])
folder, *files = map(Path, sys.argv[1:])
sys.exit(7 if SingleInstance(folder).begin(files) else 0)
"""


def started_again(folder: Path, files: list[Path]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", LATER, str(folder), *map(str, files)])


def test_later_starts_hand_their_files_over(
    first: SingleInstance, tmp_path: Path, qtbot: QtBot
) -> None:
    heard: list[list[Path]] = []
    first.called.connect(heard.append)
    two = [tmp_path / "片段 1.mp4", tmp_path / "b.latent"]
    later = [started_again(tmp_path, files) for files in (two, [], [tmp_path / "c.mkv"])]
    qtbot.waitUntil(lambda: all(one.poll() is not None for one in later), timeout=20_000)
    assert [one.returncode for one in later] == [0, 0, 0]
    assert sorted(heard) == [[], [tmp_path / "c.mkv"], two]


def test_the_next_start_is_first_when_the_first_has_ended(qapp: object, tmp_path: Path) -> None:
    one, other = SingleInstance(tmp_path), SingleInstance(tmp_path)
    assert one.begin([])
    one.end()
    assert other.begin([], patience_s=0.0)
    other.end()


KILLED = (
    LATER.rpartition("sys.exit")[0]
    + "first = SingleInstance(folder)\nfirst.begin([]) and os._exit(9)"
)


def test_a_start_after_a_kill_is_first_and_listens(qapp: object, tmp_path: Path) -> None:
    code = "import os" + KILLED
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, timeout=60)
    assert done.returncode == 9
    assert (tmp_path / "window.lock").exists()
    again = SingleInstance(tmp_path)
    assert again.begin([], patience_s=0.0)
    assert again._server is not None
    assert again._server.isListening()
    again.end()


def test_who_gets_no_answer_opens_a_window(qapp: object, tmp_path: Path) -> None:
    silent = SingleInstance(tmp_path)
    assert silent.begin([])
    silent.stop_listening()
    assert SingleInstance(tmp_path).begin([tmp_path / "film.mp4"], patience_s=0.2)
    silent.end()


def test_other_data_folders_are_other_programs(first: SingleInstance, tmp_path: Path) -> None:
    other = SingleInstance(tmp_path / "portable")
    assert other.begin([], patience_s=0.0)
    other.end()


def test_a_folder_that_takes_no_lock_is_no_reason_to_stay_away(
    qapp: object, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert SingleInstance(tmp_path / "file").begin([], patience_s=0.0)


@pytest.mark.parametrize("words", [b"hello\n", b'{"files": [1]}\n', b"[]\n", b"\xff\n"])
def test_nonsense_is_not_taken(first: SingleInstance, qtbot: QtBot, words: bytes) -> None:
    heard: list[object] = []
    first.called.connect(heard.append)
    caller = QLocalSocket()
    caller.connectToServer(first._name)
    assert caller.waitForConnected(1000)
    caller.write(words)
    caller.flush()
    with qtbot.waitSignal(caller.disconnected, timeout=5000):
        pass
    assert heard == []
