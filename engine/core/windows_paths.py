r"""Names and paths on Windows; the rules are data, so that they are tested on any system.

Programs may use paths of 259 characters, folders of 247, unless a path has the long form
`\\?\C:\...` or `\\?\UNC\server\share\...`, which Windows does not change: absolute, with
backslashes and without "..".
"""

from __future__ import annotations

import ntpath
import re
import sys
from collections.abc import Callable
from pathlib import Path, PurePath, PureWindowsPath
from typing import NamedTuple

LONG = "\\\\?\\"
LONGEST_PATH = 259
_LONG_UNC = "\\\\?\\UNC\\"
_UNCHANGED = (LONG, "\\\\.\\", "\\??\\")  # paths of the system itself
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
    return Path(long_form(whole(PureWindowsPath(path), ntpath.abspath)))


def whole(path: PureWindowsPath, absolute: Callable[[str], str]) -> PureWindowsPath:
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
    return PureWindowsPath(LONG + text)


def shown(path: PurePath | str) -> str:
    """A path for display, without the prefix of the long form."""
    text = str(path)
    if text.startswith(_LONG_UNC):
        return "\\\\" + text[len(_LONG_UNC) :]
    return text.removeprefix(LONG)


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
    import winreg

    place = r"SYSTEM\CurrentControlSet\Control\FileSystem"
    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, place) as key:
            return bool(winreg.QueryValueEx(key, "LongPathsEnabled")[0])
    except OSError:
        return False
