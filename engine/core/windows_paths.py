r"""Names and paths on Windows: its rules as data, so that they are tested on any system.

Programs may use paths of 259 characters, folders of 247, unless a path is written in the long
form `\\?\C:\...` or `\\?\UNC\server\share\...`, which Windows takes as it is: absolute, with
backslashes and without "..".
"""

from __future__ import annotations

import ntpath
import re
import sys
from collections.abc import Callable
from pathlib import Path, PurePath, PureWindowsPath

LONG = "\\\\?\\"
_LONG_UNC = "\\\\?\\UNC\\"
_AS_IT_IS = (LONG, "\\\\.\\", "\\??\\")  # paths of the system itself
_LONGEST_SHORT = 180  # characters; below the limit by what our own parts and pictures append
_LONGEST_NAME = 255

_RESERVED = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])", re.IGNORECASE)
_NOT_IN_NAMES = re.compile(r'[<>:"/\\|?*\x00-\x1f]')


def openable(path: Path) -> Path:
    """`path` as the system can open it however long it is; elsewhere than on Windows as it is.

    On Windows it becomes absolute ("C:film.mp4" lies in the current folder of drive C), and
    takes the long form where it is long. The last name is never changed: Windows would drop dots
    and spaces at its end, and make a device of "nul".
    """
    if sys.platform != "win32":
        return path
    return Path(long_form(whole(PureWindowsPath(path), ntpath.abspath)))


def whole(path: PureWindowsPath, absolute: Callable[[str], str]) -> PureWindowsPath:
    """`path` from its drive or share on; `absolute` knows the current folder of each drive."""
    if str(path).startswith(_AS_IT_IS):
        return path
    if path.name in ("", ".."):
        return PureWindowsPath(absolute(str(path)))
    return PureWindowsPath(absolute(str(path.parent)), path.name)


def long_form(path: PureWindowsPath) -> PureWindowsPath:
    """An absolute path that Windows takes at any length; a short one stays as it is."""
    text = str(path)
    if len(text) <= _LONGEST_SHORT or text.startswith(_AS_IT_IS) or not path.is_absolute():
        return path
    if text.startswith("\\\\"):
        return PureWindowsPath(_LONG_UNC + text[2:])
    return PureWindowsPath(LONG + text)


def shown(path: PurePath | str) -> str:
    """A path as people write it, without the mark of the long form."""
    text = str(path)
    if text.startswith(_LONG_UNC):
        return "\\\\" + text[len(_LONG_UNC) :]
    return text.removeprefix(LONG)


def is_reserved(name: str) -> bool:
    """Whether Windows means a device by this name: CON, nul.mp4, "com1 .txt"."""
    return _RESERVED.fullmatch(name.partition(".")[0].rstrip(" ")) is not None


def unusable(name: str) -> str:
    """As `why_no_name`, where we are on Windows; "" elsewhere."""
    return why_no_name(name) if sys.platform == "win32" else ""


def why_no_name(name: str) -> str:
    """What stands against a file of this name on Windows, as a sentence; "" for nothing."""
    if is_reserved(name):
        return f"Windows keeps the name {name} for a device."
    found = _NOT_IN_NAMES.search(name)
    if found is not None:
        sign = found[0] if found[0].isprintable() else f"U+{ord(found[0]):04X}"
        return f"Windows allows no {sign} in the name of a file."
    if name != name.rstrip(". "):
        return f"Windows drops the dot or space at the end of the name {name!r}."
    if len(name.encode("utf-16-le")) // 2 > _LONGEST_NAME:
        return f"The name of the file is longer than {_LONGEST_NAME} characters."
    return ""
