import errno
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from engine.core.errors import (
    DiskFull,
    OutputExists,
    OutputIsInput,
    OutputNameUnusable,
    OutputUnwritable,
)
from engine.pipeline import prepare
from engine.pipeline.prepare import check_output, try_output
from engine.pipeline.publication import part_path, publish
from tests.helpers.plans import a_media


@pytest.fixture
def media(tmp_path):
    source = tmp_path / "film.mkv"
    source.write_bytes(b"film")
    return replace(a_media(), path=source)


def test_the_source_is_never_replaced_even_through_a_link(media, tmp_path):
    link = tmp_path / "link.mkv"
    if sys.platform == "win32":  # others need a right that few have there
        link.hardlink_to(media.path)
    else:
        link.symlink_to(media.path)
    for output in (media.path, link):
        with pytest.raises(OutputIsInput):
            check_output(media, output, overwrite=True)


def test_an_existing_file_is_replaced_only_when_allowed_and_a_folder_never(media, tmp_path):
    check_output(media, tmp_path / "there.mkv", overwrite=False)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["film.mkv"]
    (tmp_path / "there.mkv").write_bytes(b"old")
    with pytest.raises(OutputExists):
        check_output(media, tmp_path / "there.mkv", overwrite=False)
    check_output(media, tmp_path / "there.mkv", overwrite=True)
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputExists, match="A folder with the name folder") as refused:
        check_output(media, tmp_path / "folder", overwrite=True)
    assert "overwrite" not in refused.value.hint


def test_windows_refuses_names_that_it_would_take_for_something_else(media, tmp_path, monkeypatch):
    names = ("nul.mkv", "a:b.mkv", "film.mkv.", "COM1.mkv")
    if sys.platform != "win32":
        for name in names:
            check_output(media, tmp_path / name, overwrite=False)  # good names elsewhere
    monkeypatch.setattr(sys, "platform", "win32")
    for name in names:  # not by "/", which takes "a:" for a drive there
        with pytest.raises(OutputNameUnusable):
            check_output(media, Path(f"{tmp_path}{os.sep}{name}"), overwrite=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["film.mkv"]


def test_a_missing_folder_a_locked_one_and_a_full_disk_are_refused(media, tmp_path, monkeypatch):
    with pytest.raises(OutputUnwritable, match="does not exist"):
        check_output(media, tmp_path / "none" / "a.mkv", overwrite=False)
    for number, kind in ((errno.EACCES, OutputUnwritable), (errno.ENOSPC, DiskFull)):

        def refuse(number=number, **_):
            raise OSError(number, "no")

        monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
        with pytest.raises(kind):
            try_output(tmp_path / "a.mkv")


def test_before_the_start_a_folder_is_asked_and_never_written_to(media, tmp_path, monkeypatch):
    folder = tmp_path / "results"
    folder.mkdir()
    before = folder.stat().st_mtime_ns
    check_output(media, folder / "a.mkv", overwrite=False)
    assert folder.stat().st_mtime_ns == before
    with pytest.raises(OutputNameUnusable):
        check_output(media, folder / ("a" * 300 + ".mkv"), overwrite=False)

    def refused(folder: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(folder))

    # Root may write everywhere. The call of Windows has no part to replace.
    monkeypatch.setattr(os, "access", lambda *_: False)
    if sys.platform == "win32":
        monkeypatch.setattr(prepare, "check_can_add", refused)
    with pytest.raises(OutputUnwritable, match="results"):
        check_output(media, folder / "a.mkv", overwrite=False)


def test_a_file_that_appeared_meanwhile_survives_and_so_does_the_result(tmp_path):
    part, output = part_path(tmp_path / "a.mkv", "j1"), tmp_path / "a.mkv"
    part.write_bytes(b"new")
    output.write_bytes(b"another program's")
    assert part.suffix == ".mkv"
    with pytest.raises(OutputExists):
        publish(part, output, overwrite=False)
    assert (output.read_bytes(), part.read_bytes()) == (b"another program's", b"new")
    publish(part, output, overwrite=True)
    assert output.read_bytes() == b"new"
    assert not part.exists()
    pictures = part_path(tmp_path / "shot", "j1")
    pictures.mkdir()
    (pictures / "0001.png").write_bytes(b"x")
    publish(pictures, tmp_path / "shot", overwrite=False)
    assert (tmp_path / "shot" / "0001.png").exists()
