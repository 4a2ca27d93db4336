"""A second start gives its files to the first."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtNetwork import QLocalSocket

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


def test_later_starts_hand_files_over(first, tmp_path, qtbot):
    heard: list[list[Path]] = []
    first.called.connect(heard.append)
    two = [tmp_path / "片段 1.mp4", tmp_path / "b.latent"]
    begin = [sys.executable, "-c", LATER, str(tmp_path)]
    given = (two, [], [tmp_path / "c.mkv"])
    later = [subprocess.Popen([*begin, *map(str, files)]) for files in given]
    qtbot.waitUntil(lambda: all(one.poll() is not None for one in later), timeout=20_000)
    assert [one.returncode for one in later] == [0, 0, 0]
    assert sorted(heard) == [[], [tmp_path / "c.mkv"], two]


def test_a_start_after_a_kill_is_first_and_listens(qapp, tmp_path):
    begin = "first = SingleInstance(folder)\nfirst.begin([]) and os._exit(9)"
    code = f"import os{LATER.rpartition('sys.exit')[0]}{begin}"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False, timeout=60)
    assert done.returncode == 9
    assert (tmp_path / "window.lock").exists()
    again = SingleInstance(tmp_path)
    assert again.begin([], patience_s=0.0)
    assert again._server.isListening()
    again.end()


def test_who_gets_no_answer_opens_a_window(qapp, tmp_path):
    silent = SingleInstance(tmp_path)
    assert silent.begin([])
    silent.stop_listening()
    assert SingleInstance(tmp_path).begin([tmp_path / "film.mp4"], patience_s=0.2)
    silent.end()
    (tmp_path / "file").write_text("", encoding="utf-8")  # takes no lock
    assert SingleInstance(tmp_path / "file").begin([], patience_s=0.0)


def test_other_data_folders_and_later_starts_are_first(first, tmp_path):
    for _ in range(2):
        other = SingleInstance(tmp_path / "portable")
        assert other.begin([], patience_s=0.0)
        other.end()


def test_nonsense_is_not_taken(first, qtbot):
    heard: list[object] = []
    first.called.connect(heard.append)
    for words in (b"hello\n", b'{"files": [1]}\n', b"[]\n", b"\xff\n"):
        caller = QLocalSocket()
        caller.connectToServer(first._name)
        assert caller.waitForConnected(1000)
        with qtbot.waitSignal(caller.disconnected, timeout=5000):
            caller.write(words)
            caller.flush()
    assert heard == []
