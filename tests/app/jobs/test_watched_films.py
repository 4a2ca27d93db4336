"""What of a folder is taken for a film that is new and whole, over looks and starts."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from app import desktop
from app.jobs import watched_films
from app.jobs.watched_films import WatchedFilms
from engine.core import paths
from engine.jobs import made_results

PATTERN = "{name}_{size}"
Look = Callable[..., list[str]]


def put(folder: Path, name: str, content: str = "") -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content or name)
    return file


@pytest.fixture
def incoming(tmp_path: Path) -> Path:
    folder = tmp_path / "incoming"
    folder.mkdir()
    return folder


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return tmp_path / "data" / "watched.txt"


@pytest.fixture
def look(incoming: Path, record: Path) -> Look:
    """Names of what a look takes."""
    watched = WatchedFilms(record)

    def names(most: int = 10, queued: tuple[Path, ...] = (), pattern: str = PATTERN) -> list[str]:
        return [path.name for path in watched.look(incoming, queued, pattern, most)]

    return names


def test_a_film_is_taken_at_the_second_look_once(incoming, look):
    put(incoming, "film.mp4")
    put(incoming, "inner/other.MKV")
    assert look() == []
    assert look() == ["film.mp4", "other.MKV"]
    assert look() == []


def test_a_film_that_is_being_copied_is_taken_when_it_stands_still(incoming, look):
    film = put(incoming, "film.mp4")
    for part in range(3):
        assert look() == []
        with film.open("a") as file:
            file.write(f"part {part}")
    assert look() == []
    assert look() == ["film.mp4"]


def test_a_film_of_which_only_the_time_changes_is_being_written(incoming, look):
    film = put(incoming, "film.mp4")  # room for all of it was taken before
    for second in range(3):
        assert look() == []
        os.utime(film, (second, second))
    assert look() == []
    assert look() == ["film.mp4"]


def test_a_film_that_another_program_writes_waits(incoming, look, monkeypatch):
    film = put(incoming, "film.mp4")
    monkeypatch.setattr(desktop, "is_being_written", lambda path: path == film)
    assert look() == look() == look() == []
    monkeypatch.setattr(desktop, "is_being_written", lambda path: False)
    assert look() == ["film.mp4"]


def test_a_film_that_cannot_be_opened_waits(incoming, look, monkeypatch):
    put(incoming, "film.mp4")

    def refuse(path: Path) -> str:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    with monkeypatch.context() as refused:
        refused.setattr(watched_films, "content_mark", refuse)
        assert look() == look() == look() == []
    assert look() == ["film.mp4"]


@pytest.mark.parametrize(
    "name",
    [
        ".film.mp4",
        "~$film.mp4",
        ".hidden/film.mp4",
        "$Recycle.Bin/film.mp4",
        "upreel-1a2b.part.mp4",
        "film.tmp.mkv",
        "film.mp4.part",
        "film.mp4.crdownload",
        "film.png",
        "notes.txt",
    ],
)
def test_what_is_out_of_sight_or_unfinished_or_no_film_is_left_alone(incoming, look, name):
    put(incoming, name)
    assert look() == look() == look() == []


@pytest.mark.parametrize("ending", [".part", ".crdownload", ".aria2"])
def test_a_name_that_a_download_has_taken_is_no_film_until_that_ends(incoming, look, ending):
    put(incoming, "film.mp4")
    download = put(incoming, f"film.mp4{ending}")
    assert look() == look() == look() == []
    download.unlink()
    assert look() == ["film.mp4"]


def test_an_empty_file_waits_for_its_content(incoming, look):
    (incoming / "film.mp4").touch()
    assert look() == look() == look() == []
    put(incoming, "film.mp4")
    look()
    assert look() == ["film.mp4"]


def test_a_result_is_never_taken_whatever_its_name(incoming, look):
    result = put(incoming, "renamed by hand.mp4", "a result")
    made_results.note(result)
    put(incoming, "copy.mp4", "a result")
    assert look() == look() == look() == []


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("film_x2.mp4", PATTERN),
        ("film_x4 (2).mkv", PATTERN),
        ("film_1080p.mp4", PATTERN),
        ("film_1920x1080.mp4", PATTERN),
        ("results/film_copy.mp4", PATTERN),
        ("4K of film x2.mp4", "4K of {name} {size}"),
        ("film_x2.mp4", "4K of {name} {size}"),
    ],
)
def test_what_is_named_as_the_result_of_a_film_there_is_one(incoming, look, name, pattern):
    put(incoming, name)
    film = put(incoming, "film.mp4")
    look(pattern=pattern)
    assert look(pattern=pattern) == ["film.mp4"]
    film.unlink()
    assert look(pattern=pattern) == [], "it is none without its source either"


def test_names_that_only_look_like_a_result_are_films(incoming, look):
    names = ["film (2).mp4", "film.mp4", "lone_x2.mp4"]
    for name in names:
        put(incoming, name)
    look(pattern="{name}")
    assert look(pattern="{name}") == names


def test_a_film_of_the_queue_is_not_taken_a_second_time(incoming, look):
    film = put(incoming, "film.mp4")
    assert look(queued=(film,)) == look(queued=(film,)) == []
    assert look() == [], "after it has left the queue"


def test_what_was_taken_is_known_after_a_new_start_also_under_another_name(incoming, look, record):
    film = put(incoming, "film.mp4", "the same")
    look()
    assert look() == ["film.mp4"]
    assert not record.exists(), "the queue is kept first"
    look()
    film.rename(incoming / "renamed.mp4")
    put(incoming, "copy.mp4", "the same")
    put(incoming, "new.mp4")
    again = WatchedFilms(record)
    again.look(incoming, (), PATTERN, 10)
    assert [path.name for path in again.look(incoming, (), PATTERN, 10)] == ["new.mp4"]


def test_another_film_of_the_same_name_is_a_new_one(incoming, look):
    put(incoming, "film.mp4", "one")
    look()
    assert look() == ["film.mp4"]
    put(incoming, "film.mp4", "another")
    look()
    assert look() == ["film.mp4"]


def test_of_a_record_with_torn_lines_the_others_count(incoming, look, record):
    film = put(incoming, "film.mp4")
    look()
    assert look() == ["film.mp4"]
    look()
    with record.open("a") as file:
        file.write('\n{"path": 3}\n[]\n{"path": "')
    put(incoming, "new.mp4")
    again = WatchedFilms(record)
    again.look(incoming, (), PATTERN, 10)
    assert [path.name for path in again.look(incoming, (), PATTERN, 10)] == ["new.mp4"]
    again.look(incoming, (), PATTERN, 10)
    last = WatchedFilms(record)
    assert last.look(incoming, (), PATTERN, 10) == last.look(incoming, (), PATTERN, 10) == []
    assert film.exists()


def test_without_its_record_nothing_is_taken_twice_and_a_full_disk_stops_nothing(
    incoming, look, record
):
    record.parent.mkdir()
    record.mkdir()  # the disk does not give it
    put(incoming, "film.mp4")
    for _ in range(3):
        with pytest.raises(IsADirectoryError):
            look()
    record.rmdir()
    look()
    record.mkdir()  # nor takes it
    assert look() == ["film.mp4"]
    assert look() == []
    record.rmdir()
    look()
    assert "film.mp4" in record.read_text()


def test_a_folder_that_has_gone_says_so_and_goes_on_when_it_is_back(incoming, look):
    put(incoming, "film.mp4")
    look()
    away = incoming.rename(incoming.with_name("away"))
    with pytest.raises(FileNotFoundError):
        look()
    away.rename(incoming)
    assert look() == ["film.mp4"]


def test_pieces_of_jobs_are_no_films(incoming, look, monkeypatch):
    monkeypatch.setattr(paths, "_chosen_jobs_folder", str(incoming / "jobs"))
    put(incoming, "jobs/a/segment_000000.mkv")
    put(incoming, "film.mp4")
    look()
    assert look() == ["film.mp4"]


def test_of_many_a_few_are_taken_at_a_time(incoming, look):
    for number in range(6):
        put(incoming, f"{number}.mp4")
    look()
    assert look(most=3) == ["0.mp4", "1.mp4", "2.mp4"]
    assert look(most=0) == []
    assert look(most=2) == ["3.mp4", "4.mp4"]
