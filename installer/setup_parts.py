"""What the setup is made of beside its script: lists, types, licence pages, zip."""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.jobs.file_suffixes import VIDEO_ENDINGS
from engine.core import atomic_file

ROOT = Path(__file__).resolve().parents[1]
SUMS = "SHA256SUMS"
_SETUPS_OWN = re.compile(r"uninstall\.(exe|files)|~upreel-(new|old)", re.IGNORECASE)

_LICENCE = {
    "en": (
        "Upreel's own code, drawings and Lite weights are under the Apache License 2.0.\n\n"
        "The program as it is packed here also holds FFmpeg with x264 and x265, Qt, PyTorch and "
        "others. As a whole it may be passed on only under the GNU General Public License, version "
        "3, which follows. You may use it for whatever you like; what you make is yours.\n\n"
        "All licences lie in the program's folder: LICENSE, THIRD_PARTY_NOTICES.md and "
        "_internal\\resources\\licences."
    ),
    "zh": (
        "Upreel 自身的代码、图形和 Lite 权重采用 Apache License 2.0 许可证。\n\n"
        "此处打包的程序还包含 FFmpeg（含 x264 和 x265）、Qt、PyTorch 等组件。"
        "作为整体，它只能按下面的 GNU 通用公共许可证第 3 版（GPL-3.0）转发。"
        "您可以将它用于任何用途；您用它制作的内容归您所有。\n\n"
        "所有许可证都在程序文件夹中：LICENSE、THIRD_PARTY_NOTICES.md 和 "
        "_internal\\resources\\licences。"
    ),
}


class PayloadError(Exception):
    """The folder cannot be installed as it is."""


@dataclass(frozen=True)
class Listing:
    """What a payload holds: paths below it, with backslashes, sorted.

    Args:
        folders: Parents before what is in them.
        files: All files.
        bytes: Of all files together.
    """

    folders: tuple[str, ...]
    files: tuple[str, ...]
    bytes: int

    @property
    def longest(self) -> int:
        """Characters of the longest path."""
        return max(len(path) for path in (*self.folders, *self.files))


def listing(payload: Path) -> Listing:
    """What is to be installed.

    Raises:
        PayloadError: It holds a link, a name that the setup uses, or two names that Windows takes
            for one.
    """
    folders, files, size = [], [], 0
    for path in sorted(payload.rglob("*")):
        name = "\\".join(path.relative_to(payload).parts)
        if path.is_symlink():
            raise PayloadError(f"{name} is a link; Windows' setup has none")
        if _SETUPS_OWN.fullmatch(name):
            raise PayloadError(f"{name} is a name that the setup uses itself")
        if path.is_dir():
            folders.append(name)
        else:
            files.append(name)
            size += path.stat().st_size
    if len({name.lower() for name in (*folders, *files)}) != len(folders) + len(files):
        raise PayloadError("two names differ only in capital letters")
    if not files:
        raise PayloadError(f"{payload} is empty")
    return Listing(tuple(folders), tuple(files), size)


def write_list(listed: Listing, file: Path) -> None:
    """Write the list as setup.nsi reads it: +folder, =file, -folder with the deepest first."""
    lines = [f"+{name}" for name in listed.folders]
    lines += [f"={name}" for name in listed.files]
    lines += [f"-{name}" for name in reversed(listed.folders)]
    file.write_bytes("".join(f"{line}\r\n" for line in lines).encode("utf-16-le"))


def write_types(file: Path) -> None:
    """Write the types of films, for every one of which setup.nsi does the same."""
    lines = [f"  !insertmacro ${{DO}} {ending} ${{KIND}}" for ending in sorted(VIDEO_ENDINGS)]
    text = "\n".join(["!macro EACH_FILM_TYPE DO KIND", *lines, "!macroend", ""])
    file.write_text(text, encoding="utf-8")


def write_licences(folder: Path) -> None:
    """Write the page about licences, one for each language."""
    gpl = (ROOT / "resources" / "licences" / "GPL-3.0.txt").read_text(encoding="utf-8")
    for language, words in _LICENCE.items():
        text = f"{words}\n\n{'-' * 60}\n\n{gpl}".replace("\n", "\r\n")
        (folder / f"licence_{language}.txt").write_bytes(text.encode("utf-8-sig"))


def write_zip(payload: Path, target: Path) -> None:
    """Pack the program as it is into a zip with one folder in it."""
    folder = target.stem.removesuffix("-portable")
    part = target.with_name(f"{target.name}.part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as packed:
        for path in sorted(payload.rglob("*")):
            if path.is_file():
                packed.write(path, f"{folder}/{path.relative_to(payload).as_posix()}")
    atomic_file.replace(part, target)


def write_sums(files: Sequence[Path], folder: Path) -> str:
    """Write SHA256SUMS of these files as `sha256sum` does; its text."""
    lines = []
    for file in sorted(files):
        with file.open("rb") as stream:
            lines.append(f"{hashlib.file_digest(stream, 'sha256').hexdigest()}  {file.name}\n")
    (folder / SUMS).write_text("".join(lines), encoding="utf-8", newline="\n")
    return "".join(lines)
