r"""Folders of the program (resources, jobs, logs, cache), and the rules of Windows for paths.

The environment variables `UPREEL_RESOURCES`, `UPREEL_DATA`, `UPREEL_CACHE` and `UPREEL_MODELS`
name other folders.

On Windows programs may use paths of 259 characters, folders of 247, unless a path has the long form
`\\?\C:\...` or `\\?\UNC\server\share\...`, which Windows does not change: absolute, with
backslashes and without "..". These rules are data, so that they are tested on any system.
"""

from __future__ import annotations

import ntpath
import os
import re
import sys
from collections.abc import Callable, Collection
from pathlib import Path, PurePath, PureWindowsPath
from typing import NamedTuple

from engine.core.registry import machine_value

APP = "Upreel"


def resources() -> Path:
    """Folder of icons, weights and the sample clip: source tree, installed package or frozen."""
    named = os.environ.get("UPREEL_RESOURCES")
    if named:
        return Path(named)
    frozen = getattr(sys, "_MEIPASS", None)
    return Path(frozen or Path(__file__).parents[2]) / "resources"


def resource(*parts: str) -> Path:
    """One file of the resources."""
    return resources().joinpath(*parts)


def data_folder() -> Path:
    """Folder of this user's jobs, settings and models."""
    named = os.environ.get("UPREEL_DATA")
    return Path(named) if named else _own_folder("user_data_dir")


def cache_folder() -> Path:
    """Folder of reproducible files: measured speeds, compiled kernels."""
    named = os.environ.get("UPREEL_CACHE")
    return Path(named) if named else _own_folder("user_cache_dir")


_chosen_jobs_folder = ""


def choose_jobs_folder(folder: str) -> None:
    """Let this process keep its jobs in another folder; "" for the default one."""
    global _chosen_jobs_folder
    _chosen_jobs_folder = folder


def jobs_folder() -> Path:
    """Folder with one folder for each job."""
    return openable(Path(_chosen_jobs_folder or own_jobs_folder()))


def own_jobs_folder() -> Path:
    """Default folder of jobs: jobs that were begun there stay there."""
    return openable(data_folder() / "jobs")


def models_folder() -> Path:
    """Folder of the downloaded and imported model files; may be on another disk."""
    named = os.environ.get("UPREEL_MODELS")
    return openable(Path(named) if named else data_folder() / "models")


def runtimes_folder() -> Path:
    """Folder of the NVIDIA runtimes, one folder for each version of each."""
    return data_folder() / "runtimes"


def logs_folder() -> Path:
    """Folder of the logs."""
    return data_folder() / "logs"


def numbered(path: Path, taken: Collection[Path] = ()) -> Path:
    """The first of `path (2)`, `path (3)`, ... that is not taken and does not exist yet."""
    number, free = 2, path.with_stem(f"{path.stem} (2)")
    while free in taken or free.exists():
        number += 1
        free = path.with_stem(f"{path.stem} ({number})")
    return free


def is_numbered(path: Path, name: Path) -> bool:
    """Whether a path is another one, or one that `numbered` makes of it."""
    if (path.parent, path.suffix) != (name.parent, name.suffix):
        return False
    stem = re.escape(name.stem) + r"(?: \(\d+\))?"
    return re.fullmatch(stem, path.stem) is not None


def _own_folder(kind: str) -> Path:
    """Folder that the system provides; platformdirs is not needed where all folders are named."""
    import platformdirs

    return Path(getattr(platformdirs, kind)(APP, appauthor=False))


# --- names and paths on Windows

LONG_PREFIX = "\\\\?\\"
LONGEST_PATH = 259
_LONG_UNC = "\\\\?\\UNC\\"
_UNCHANGED = (LONG_PREFIX, "\\\\.\\", "\\??\\")  # paths of the system itself
_LONGEST_SHORT = 180  # characters; leaves room for the names of our own parts and pictures
_LONGEST_NAME = 255

_RESERVED = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])", re.IGNORECASE)
NOT_IN_NAMES = re.compile(r'[<>:"/\\|?*\x00-\x1f]')  # on any system: disks are shared


def openable(path: Path) -> Path:
    """A path that the system can open whatever its length; unchanged elsewhere than on Windows.

    On Windows it becomes absolute ("C:film.mp4" is in the current folder of drive C), and gets the
    long form where it is long. The last name is never changed: Windows would drop dots and spaces
    at its end, and take "nul" for a device.
    """
    if sys.platform != "win32":
        return path
    return Path(long_form(with_drive(PureWindowsPath(path), ntpath.abspath)))


def with_drive(path: PureWindowsPath, absolute: Callable[[str], str]) -> PureWindowsPath:
    """A path with its drive or share; `absolute` resolves the current folder of each drive."""
    if str(path).startswith(_UNCHANGED):
        return path
    if path.name in ("", ".."):
        return PureWindowsPath(absolute(str(path)))
    return PureWindowsPath(absolute(str(path.parent)), path.name)


def long_form(path: PureWindowsPath) -> PureWindowsPath:
    """An absolute path in the long form; a short one is unchanged."""
    text = str(path)
    if len(text) <= _LONGEST_SHORT or text.startswith(_UNCHANGED) or not path.is_absolute():
        return path
    if text.startswith("\\\\"):
        return PureWindowsPath(_LONG_UNC + text[2:])
    return PureWindowsPath(LONG_PREFIX + text)


def shown(path: PurePath | str) -> str:
    """A path for display, without the prefix of the long form."""
    text = str(path)
    if text.startswith(_LONG_UNC):
        return "\\\\" + text[len(_LONG_UNC) :]
    return text.removeprefix(LONG_PREFIX)


def is_reserved(name: str) -> bool:
    """Whether Windows takes this name for a device: CON, nul.mp4, "com1 .txt"."""
    return _RESERVED.fullmatch(name.partition(".")[0].rstrip(" ")) is not None


class NameProblem(NamedTuple):
    """Why Windows allows no file of a name: a case of OutputNameUnusable with its values."""

    case: str
    params: dict[str, str]


def name_problem(name: str) -> NameProblem | None:
    """Why this system allows no file of this name; None where it does."""
    return problem_on_windows(name) if sys.platform == "win32" else None


def problem_on_windows(name: str) -> NameProblem | None:
    """Why Windows allows no file of this name; None where it does."""
    if is_reserved(name):
        return NameProblem("device", {"name": name})
    found = NOT_IN_NAMES.search(name)
    if found is not None:
        sign = found[0] if found[0].isprintable() else f"U+{ord(found[0]):04X}"
        return NameProblem("character", {"sign": sign})
    if name != name.rstrip(". "):
        return NameProblem("ending", {"name": name})
    if len(name.encode("utf-16-le")) // 2 > _LONGEST_NAME:
        return NameProblem("length", {"limit": str(_LONGEST_NAME)})
    return None


def takes_long_paths() -> bool:
    """Whether this system opens long paths without the long form."""
    if sys.platform != "win32":
        return True
    place = r"SYSTEM\CurrentControlSet\Control\FileSystem"
    return bool(machine_value(place, "LongPathsEnabled"))
