"""Windows' rules for names and paths, on any system."""

import sys
from pathlib import Path, PureWindowsPath

import pytest

from engine.core import paths
from engine.core.errors import OutputNameUnusable

LONG_NAME = "a" * 100


def current_folders(path: str) -> str:
    """As Windows' own, where we are in C:\\films and drive D is at D:\\old."""
    text = path.replace("/", "\\")
    drive, rest = text[:2], text[2:]
    if text.startswith("\\\\"):
        return text
    if drive == "D:":
        return text if rest.startswith("\\") else f"D:\\old\\{rest}".rstrip("\\")
    if drive == "C:":
        return text if rest.startswith("\\") else f"C:\\films\\{rest}".rstrip("\\")
    return "C:\\films" if text == "." else f"C:\\films\\{text}"


def test_paths_start_at_their_drive() -> None:
    for given, meant in (
        ("film.mp4", "C:\\films\\film.mp4"),
        ("C:film.mp4", "C:\\films\\film.mp4"),
        ("D:film.mp4", "D:\\old\\film.mp4"),
        ("D:/a/film.mp4", "D:\\a\\film.mp4"),
        *((kept, kept) for kept in ("D:\\", "C:\\a\\nul", "C:\\a\\film.")),
        *((kept, kept) for kept in ("\\\\nas\\films\\a.mkv", "\\\\?\\C:\\a\\..")),
    ):
        assert str(paths.with_drive(PureWindowsPath(given), current_folders)) == meant


def test_only_long_paths_take_the_long_form_and_it_is_never_shown() -> None:
    starts = {"C:\\": "\\\\?\\C:\\", "\\\\nas\\films\\": "\\\\?\\UNC\\nas\\films\\"}
    for start, long_start in starts.items():
        short = PureWindowsPath(start, "film.mp4")
        assert paths.long_form(short) == short
        path = PureWindowsPath(start, LONG_NAME, LONG_NAME, "film.mp4")
        long = paths.long_form(path)
        assert str(long).startswith(long_start)
        assert paths.long_form(long) == long
        assert str(long.parent / long.name) == str(long)
        assert paths.shown(long) == str(path)
        assert paths.shown(short) == str(short)


def test_what_we_append_still_fits_into_a_short_path() -> None:
    longest = PureWindowsPath("C:\\", "a" * 175)
    assert paths.long_form(longest) == longest
    relative = PureWindowsPath(LONG_NAME, LONG_NAME)
    assert paths.long_form(relative) == relative
    part = longest.with_name(longest.name + ".0123456789ab.part.mkv")
    assert len(str(part / "frame_000000001.tiff")) < 247


@pytest.mark.skipif(sys.platform == "win32", reason="there it changes long ones")
def test_other_systems_take_paths_as_they_are() -> None:
    path = Path("a" * 300, "..", "nul")
    assert paths.openable(path) is path


@pytest.mark.skipif(sys.platform != "win32", reason="needs Windows' own calls")
def test_windows_opens_a_path_of_400_characters(tmp_path: Path) -> None:
    folder = paths.openable(tmp_path / ("b" * 200) / ("c" * 150))
    folder.mkdir(parents=True)
    (folder / "film.txt").write_text("here", encoding="utf-8")
    assert (folder / "film.txt").read_text(encoding="utf-8") == "here"


DEVICES = ("CON", "nul.mp4", "Aux", "com1.mkv", "LPT9", "prn .txt", "COM².mp4", "CONIN$", "com0")
PROBLEMS = {  # name -> case of OutputNameUnusable, and part of its message
    "a:b.mkv": ("character", "allow : in"),
    "what?.mp4": ("character", "allow ? in"),
    "two\nlines.mp4": ("character", "allow U+000A in"),
    "film.mp4.": ("ending", "at the end"),
    "film ": ("ending", "at the end"),
    "f" * 252 + ".mp4": ("length", "longer than 255"),
} | {name: ("device", name) for name in DEVICES}
USABLE = ("film.mp4", "console.mkv", "COM10.mp4", "nullen.mp4", "片段 1.mkv", ".film", "f" * 255)


def test_names_that_windows_refuses_have_a_message() -> None:
    for name, (case, part) in PROBLEMS.items():
        problem = paths.problem_on_windows(name)
        assert problem is not None, name
        error = OutputNameUnusable(problem.case, **problem.params)
        assert (error.case, part in error.message) == (case, True), name
    for name in USABLE:
        assert paths.problem_on_windows(name) is None, name
