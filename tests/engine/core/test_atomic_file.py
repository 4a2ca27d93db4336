"""Files are written completely or not at all; renaming is retried while a file is open."""

import contextlib
import errno
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from engine.core import atomic_file

SHARING_VIOLATION = 32


class Held:
    """Path.replace or Path.rename as on Windows while another process has the file open."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        verb: str,
        *,
        times: int,
        winerror: int | None = SHARING_VIOLATION,
    ) -> None:
        self.tries = 0
        real = getattr(Path, verb)

        def attempt(part: Path, target: Path) -> Any:
            self.tries += 1
            if self.tries > times:
                return real(part, target)
            error = PermissionError(errno.EACCES, "in use")
            if winerror is not None:
                error.winerror = winerror  # only Windows fills it in
            raise error

        monkeypatch.setattr(Path, verb, attempt)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    path = tmp_path / "a.txt"
    atomic_file.write_json(path, {"number": 1})
    atomic_file.write_text(path, "电影\nfilm\r\n")
    with pytest.raises(TypeError):
        atomic_file.write_json(path, [1, object()])
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="full"):
        atomic_file.write_text(path, "new")
    assert path.read_bytes() == "电影\nfilm\r\n".encode()
    assert names(tmp_path) == ["a.txt"]


def test_readers_and_other_writers_see_whole_files(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    atomic_file.write_json(path, [0] * 5000)

    def write(number: int) -> None:
        for _ in range(10):
            atomic_file.write_json(path, [number] * 5000)

    with ThreadPoolExecutor(3) as pool:
        writing = [pool.submit(write, number) for number in range(1, 4)]
        while not all(each.done() for each in writing):
            started = time.monotonic()
            with contextlib.suppress(PermissionError):  # Windows, for the instant of the renaming
                found = json.loads(path.read_text())
                assert (len(set(found)), len(found)) == (1, 5000)
            # on Windows a file that is always open, as on a busy machine, cannot be replaced
            time.sleep(0.001 + 4 * (time.monotonic() - started))
    assert [each.result() for each in writing] == [None] * 3
    assert names(tmp_path) == ["a.json"]


def test_renaming_is_retried_only_while_a_scanner_reads_the_file_or_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part, target = tmp_path / "a.part", tmp_path / "a"
    target.write_text("old")
    for winerror in (5, SHARING_VIOLATION, 33, None):
        part.write_text(f"new {winerror}")
        with monkeypatch.context() as patch:
            held = Held(patch, "replace", times=3, winerror=winerror)
            with pytest.raises(PermissionError) if winerror is None else contextlib.nullcontext():
                atomic_file.replace(part, target)
        assert held.tries == (1 if winerror is None else 4)
    assert (part.read_text(), target.read_text()) == ("new None", "new 33")
    (tmp_path / "b.part").mkdir()
    held = Held(monkeypatch, "rename", times=3)
    atomic_file.rename(tmp_path / "b.part", tmp_path / "b")
    assert held.tries == 4
    assert names(tmp_path) == ["a", "a.part", "b"]


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
def test_what_exists_is_not_replaced_by_rename(
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
    part.mkdir()
    (tmp_path / "folder").mkdir()
    broken_link = tmp_path / "link"
    if sys.platform != "win32":  # where links need rights
        broken_link.symlink_to("nowhere")
    for there in (tmp_path / "folder", broken_link):
        if os.path.lexists(there):
            with pytest.raises(FileExistsError):
                atomic_file.rename(part, there)
