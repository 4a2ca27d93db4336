"""Inputs of setup.nsi (file list, film types, licence pages, pictures), and the portable zip."""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QImage, QLinearGradient, QPainter

from app.jobs.file_suffixes import VIDEO_ENDINGS
from engine.core import atomic_file
from installer.project import ROOT, PackagingError

_RESERVED = re.compile(r"uninstall\.(exe|files)|~upreel-(new|old)", re.IGNORECASE)

_ICON = ROOT / "resources" / "icons" / "upreel-512.png"
_SIDE = (191, 362)  # width and height on a screen at 100 %, px
_HEADER = (150, 57)
_PIXEL_RATIO = 2  # for screens at 200 %

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


@dataclass(frozen=True)
class Listing:
    """Contents of a payload: paths below it, with backslashes, sorted.

    Args:
        folders: Parents before their contents.
        files: All files.
        bytes: Bytes of all files together.
    """

    folders: tuple[str, ...]
    files: tuple[str, ...]
    bytes: int

    @property
    def longest(self) -> int:
        """Characters of the longest path."""
        return max(len(path) for path in (*self.folders, *self.files))


def listing(payload: Path) -> Listing:
    """List the folders and files that are to be installed.

    Raises:
        PackagingError: It has a link, a name of the setup, or two names equal on Windows.
    """
    folders, files, size = [], [], 0
    for path in sorted(payload.rglob("*")):
        name = "\\".join(path.relative_to(payload).parts)
        if path.is_symlink():
            raise PackagingError(f"{name} is a link; Windows' setup has none")
        if _RESERVED.fullmatch(name):
            raise PackagingError(f"{name} is a name that the setup uses itself")
        if path.is_dir():
            folders.append(name)
        else:
            files.append(name)
            size += path.stat().st_size
    if len({name.lower() for name in (*folders, *files)}) != len(folders) + len(files):
        raise PackagingError("two names differ only in capital letters")
    if not files:
        raise PackagingError(f"{payload} is empty")
    return Listing(tuple(folders), tuple(files), size)


def write_list(listed: Listing, file: Path) -> None:
    """Write the list in the format of setup.nsi: +folder, =file, -folder with the deepest first."""
    lines = [f"+{name}" for name in listed.folders]
    lines += [f"={name}" for name in listed.files]
    lines += [f"-{name}" for name in reversed(listed.folders)]
    file.write_bytes("".join(f"{line}\r\n" for line in lines).encode("utf-16-le"))


def write_types(file: Path) -> None:
    """Write the NSIS macro that runs another macro for every type of film."""
    lines = [f"  !insertmacro ${{DO}} {ending} ${{KIND}}" for ending in sorted(VIDEO_ENDINGS)]
    text = "\n".join(["!macro EACH_FILM_TYPE DO KIND", *lines, "!macroend", ""])
    file.write_text(text, encoding="utf-8")


def write_licences(folder: Path) -> None:
    """Write the licence page, one for each language."""
    gpl = (ROOT / "resources" / "licences" / "GPL-3.0.txt").read_text(encoding="utf-8")
    for language, summary in _LICENCE.items():
        text = f"{summary}\n\n{'-' * 60}\n\n{gpl}".replace("\n", "\r\n")
        (folder / f"licence_{language}.txt").write_bytes(text.encode("utf-8-sig"))


def write_pictures(folder: Path) -> None:
    """Paint `side.bmp` and `header.bmp` from the icon, at 2x their size on a screen at 100 %.

    Raises:
        OSError: One of them cannot be written.
    """
    shade = QLinearGradient(0, 0, _SIDE[0] / 2, _SIDE[1])
    shade.setColorAt(0, QColor("#1B2A2C"))
    shade.setColorAt(1, QColor("#0E1013"))
    side, header = _empty_picture(*_SIDE), _empty_picture(*_HEADER)
    with QPainter(side) as painter:
        painter.fillRect(0, 0, *_SIDE, shade)
        painter.drawImage((_SIDE[0] - 96) // 2, _SIDE[1] // 4, _icon(96))
    with QPainter(header) as painter:
        painter.fillRect(0, 0, *_HEADER, QColor("#FFFFFF"))
        painter.drawImage(_HEADER[0] - 44 - 32, (_HEADER[1] - 44) // 2, _icon(44))
    for name, picture in (("side", side), ("header", header)):
        picture.setDevicePixelRatio(1)
        if not picture.save(str(folder / f"{name}.bmp")):
            raise OSError(f"{name}.bmp could not be written")


def _empty_picture(width: int, height: int) -> QImage:
    picture = QImage(width * _PIXEL_RATIO, height * _PIXEL_RATIO, QImage.Format.Format_RGB32)
    picture.setDevicePixelRatio(_PIXEL_RATIO)
    return picture


def _icon(height: int) -> QImage:
    smooth = Qt.TransformationMode.SmoothTransformation
    picture = QImage(str(_ICON)).scaledToHeight(height * _PIXEL_RATIO, smooth)
    picture.setDevicePixelRatio(_PIXEL_RATIO)
    return picture


def write_zip(payload: Path, target: Path) -> None:
    """Pack the program as it is into a zip with one top folder."""
    folder = target.stem.removesuffix("-portable")
    part = target.with_name(f"{target.name}.part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as packed:
        for path in sorted(payload.rglob("*")):
            if path.is_file():
                packed.write(path, f"{folder}/{path.relative_to(payload).as_posix()}")
    atomic_file.replace(part, target)
