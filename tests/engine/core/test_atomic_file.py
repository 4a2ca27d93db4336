"""Files are written completely or not at all; renaming is retried while a file is open."""

import errno
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from engine.core import atomic_file

SHARING_VIOLATION = 32


class Held:
    """Path.replace or Path.rename as on Windows while another process has the file open."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, verb: str, *, times: int) -> None:
        self.tries = 0
        self._times = times
        self._real = getattr(Path, verb)
        self.winerror: int | None = SHARING_VIOLATION
        monkeypatch.setattr(Path, verb, lambda part, target: self._try(part, target))

    def _try(self, part: Path, target: Path) -> Any:
        self.tries += 1
        if self.tries <= self._times:
            error = PermissionError(errno.EACCES, "in use")
            if self.winerror is not None:
                error.winerror = self.winerror  # only Windows fills it in
            raise error
        return self._real(part, target)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_text_is_written_byte_for_byte(tmp_path: Path) -> None:
    atomic_file.write_text(tmp_path / "a.txt", "电影\nfilm\r\n")
    assert (tmp_path / "a.txt").read_bytes() == "电影\nfilm\r\n".encode()
    assert names(tmp_path) == ["a.txt"]


def test_a_file_is_replaced(tmp_path: Path) -> None:
    for number in range(2):
        atomic_file.write_json(tmp_path / "a.json", {"number": number})
    assert json.loads((tmp_path / "a.json").read_text()) == {"number": 1}
    assert names(tmp_path) == ["a.json"]


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    atomic_file.write_text(tmp_path / "a.txt", "old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="full"):
        atomic_file.write_text(tmp_path / "a.txt", "new")
    assert (tmp_path / "a.txt").read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_data_that_is_not_json_leaves_the_old_file(tmp_path: Path) -> None:
    atomic_file.write_json(tmp_path / "a.json", [1])
    with pytest.raises(TypeError):
        atomic_file.write_json(tmp_path / "a.json", [1, object()])
    assert (tmp_path / "a.json").read_text() == "[1]"


def test_readers_and_other_writers_see_whole_files(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    atomic_file.write_json(path, [0] * 5000)
    done = threading.Event()
    broken: list[str] = []

    def write(number: int) -> None:
        for _ in range(10):
            atomic_file.write_json(path, [number] * 5000)

    def read() -> None:
        while not done.wait(0.001):
            try:
                found = json.loads(path.read_text())
            except PermissionError:  # Windows, for the instant of the renaming
                continue
            if len(set(found)) != 1 or len(found) != 5000:
                broken.append(str(found)[:100])

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(number,)) for number in range(1, 4)]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert not broken
    assert names(tmp_path) == ["a.json"]


@pytest.mark.parametrize("winerror", [5, 32, 33])
def test_renaming_is_retried_while_a_scanner_reads_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, winerror: int
) -> None:
    part, target = tmp_path / "a.part", tmp_path / "a"
    part.write_text("new")
    target.write_text("old")
    held = Held(monkeypatch, "replace", times=3)
    held.winerror = winerror
    atomic_file.replace(part, target)
    assert held.tries == 4
    assert target.read_text() == "new"
    assert names(tmp_path) == ["a"]


def test_renaming_is_retried_while_a_scanner_reads_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = tmp_path / "a.part"
    part.mkdir()
    held = Held(monkeypatch, "rename", times=3)
    atomic_file.rename(part, tmp_path / "a")
    assert held.tries == 4
    assert names(tmp_path) == ["a"]


def test_a_lasting_refusal_is_not_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.part").write_text("new")
    held = Held(monkeypatch, "replace", times=99)
    held.winerror = None
    with pytest.raises(PermissionError):
        atomic_file.replace(tmp_path / "a.part", tmp_path / "a")
    assert held.tries == 1
    assert names(tmp_path) == ["a.part"]


def test_retrying_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    atomic_file.write_text(tmp_path / "a", "old")
    held = Held(monkeypatch, "replace", times=99)
    monkeypatch.setattr(atomic_file, "_RETRY_SMALL_FILES_S", 0.2)
    with pytest.raises(PermissionError):
        atomic_file.write_text(tmp_path / "a", "new")
    assert 2 <= held.tries <= 6
    assert (tmp_path / "a").read_text() == "old"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("has_links", [True, False])
def test_an_existing_file_is_not_replaced_by_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    def no_links(path: Path, target: Path) -> None:
        raise OSError(errno.EPERM, "FAT has no links")

    if not has_links:
        monkeypatch.setattr(Path, "hardlink_to", no_links)
    part, target = tmp_path / "a.part", tmp_path / "a"
    part.write_text("new")
    target.write_text("the user's")
    with pytest.raises(FileExistsError):
        atomic_file.rename(part, target)
    assert (part.read_text(), target.read_text()) == ("new", "the user's")
    target.unlink()
    atomic_file.rename(part, target)
    assert target.read_text() == "new"
    assert names(tmp_path) == ["a"]


def test_an_existing_folder_is_not_replaced_by_rename(tmp_path: Path) -> None:
    for name in ("a.part", "a"):
        (tmp_path / name).mkdir()
    with pytest.raises(FileExistsError):
        atomic_file.rename(tmp_path / "a.part", tmp_path / "a")
    assert names(tmp_path) == ["a", "a.part"]


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights on Windows")
def test_a_broken_link_is_not_replaced_by_rename(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("nowhere")
    (tmp_path / "a.part").mkdir()
    with pytest.raises(FileExistsError):
        atomic_file.rename(tmp_path / "a.part", tmp_path / "a")
