import errno
import os
import subprocess
import sys
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
from engine.pipeline.output import check_output, part_path, publish, translated
from tests.helpers.plans import a_media


@pytest.fixture
def media(tmp_path):
    source = tmp_path / "film.mkv"
    source.write_bytes(b"film")
    return replace(a_media(), path=source)


def test_a_free_name_in_a_writable_folder_is_fine(media, tmp_path):
    check_output(media, tmp_path / "result.mkv", overwrite=False)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["film.mkv"]


def test_the_source_is_never_replaced_even_through_a_link(media, tmp_path):
    link = tmp_path / "link.mkv"
    if sys.platform == "win32":  # others need a right that few have there
        link.hardlink_to(media.path)
    else:
        link.symlink_to(media.path)
    for output in (media.path, link):
        with pytest.raises(OutputIsInput):
            check_output(media, output, overwrite=True)


def test_an_existing_file_is_replaced_only_when_allowed(media, tmp_path):
    (tmp_path / "there.mkv").write_bytes(b"old")
    with pytest.raises(OutputExists):
        check_output(media, tmp_path / "there.mkv", overwrite=False)
    check_output(media, tmp_path / "there.mkv", overwrite=True)


def test_a_folder_is_never_replaced(media, tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputExists):
        check_output(media, tmp_path / "folder", overwrite=True)


@pytest.mark.parametrize("name", ["nul.mkv", "a:b.mkv", "film.mkv.", "COM1.mkv"])
def test_windows_refuses_names_that_it_would_take_for_something_else(
    media, tmp_path, monkeypatch, name
):
    if sys.platform != "win32":
        check_output(media, tmp_path / name, overwrite=False)  # good names elsewhere
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(OutputNameUnusable):  # not by "/", which takes "a:" for a drive there
        check_output(media, Path(f"{tmp_path}{os.sep}{name}"), overwrite=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["film.mkv"]


def test_a_missing_folder_is_named(media, tmp_path):
    with pytest.raises(OutputUnwritable, match="does not exist"):
        check_output(media, tmp_path / "none" / "a.mkv", overwrite=False)


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX permissions")
def test_a_read_only_folder_is_refused_as_an_ordinary_user(tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o555)
    code = (
        "import os, sys, tempfile\n"
        "os.getuid() or os.setuid(65534)\n"
        "try:\n    tempfile.TemporaryFile(dir=sys.argv[1])\n"
        "except OSError as err:\n    print(err.errno)"
    )
    for part in [tmp_path, *tmp_path.parents][:4]:
        part.chmod(part.stat().st_mode | 0o055)
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == errno.EACCES
    error = translated(OSError(int(done.stdout), "Permission denied"), folder / "a.mkv")
    assert isinstance(error, OutputUnwritable)


def test_no_space_is_a_full_disk(tmp_path):
    assert isinstance(translated(OSError(errno.ENOSPC, "no"), tmp_path / "a"), DiskFull)


def test_publishing_gives_the_name_in_one_step(tmp_path):
    part, output = part_path(tmp_path / "a.mkv", "j1"), tmp_path / "a.mkv"
    assert part.suffix == ".mkv"
    part.write_bytes(b"new")
    publish(part, output, overwrite=False)
    assert output.read_bytes() == b"new"
    assert not part.exists()


def test_a_file_that_appeared_meanwhile_survives_and_so_does_the_result(tmp_path):
    part, output = part_path(tmp_path / "a.mkv", "j1"), tmp_path / "a.mkv"
    part.write_bytes(b"new")
    output.write_bytes(b"somebody's")
    with pytest.raises(OutputExists):
        publish(part, output, overwrite=False)
    assert (output.read_bytes(), part.read_bytes()) == (b"somebody's", b"new")
    publish(part, output, overwrite=True)
    assert output.read_bytes() == b"new"


def test_a_disk_without_links_still_refuses_to_overwrite(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    part, output = part_path(tmp_path / "a.mkv", "j1"), tmp_path / "a.mkv"
    part.write_bytes(b"new")
    publish(part, output, overwrite=False)
    assert output.read_bytes() == b"new"
    part.write_bytes(b"newer")
    with pytest.raises(OutputExists):
        publish(part, output, overwrite=False)
    assert output.read_bytes() == b"new"


def test_a_folder_of_pictures_is_published_too(tmp_path):
    part, output = part_path(tmp_path / "shot", "j1"), tmp_path / "shot"
    part.mkdir()
    (part / "0001.png").write_bytes(b"x")
    publish(part, output, overwrite=False)
    assert (output / "0001.png").exists()
