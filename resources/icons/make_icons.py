"""Render the application icon: PNG files and one Windows ICO, all from `upreel.svg`.

Run it again after a change of the drawing; the results are committed, so that neither the
program nor its installer needs a renderer:

    python resources/icons/make_icons.py

Needs PySide6 (QtSvg). The drawing holds two groups, `large` and `small`: below `DETAIL_FROM` pixels
the small one is shown, drawn on a grid of 16 and without film holes, because a hole smaller than
a pixel is only dirt on the letter.
"""

from __future__ import annotations

import os
import struct
import xml.etree.ElementTree as ET
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QBuffer, QByteArray, QIODevice
from PySide6.QtGui import QColor, QGuiApplication, QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

HERE = Path(__file__).resolve().parent
SIZES = (16, 20, 24, 32, 40, 48, 64, 128, 256, 512)  # px; 20 and 40 are 16 px at 125 and 250 %
ICO_SIZES = tuple(size for size in SIZES if size <= 256)  # an ICO entry cannot be larger
DETAIL_FROM = 48  # px
SVG_NAMESPACE = "http://www.w3.org/2000/svg"


def drawing(svg: str, size: int) -> bytes:
    """Return the SVG to render at `size` px: only its large or only its small group is shown."""
    root = ET.fromstring(svg)
    shown = "small" if size < DETAIL_FROM else "large"
    for group in root.findall(f"{{{SVG_NAMESPACE}}}g"):
        group.set("display", "inline" if group.get("id") == shown else "none")
    return ET.tostring(root)


def render_png(svg: str, size: int) -> bytes:
    """Render the drawing as a PNG file of size x size px with transparent corners."""
    image = QImage(size, size, QImage.Format.Format_ARGB32_Premultiplied)
    image.fill(QColor(0, 0, 0, 0))
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    QSvgRenderer(QByteArray(drawing(svg, size))).render(painter)
    painter.end()
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(buffer, "PNG")
    return bytes(buffer.data().data())


def pack_ico(pictures: dict[int, bytes]) -> bytes:
    """Pack PNG files, by size in px (at most 256), into one ICO file.

    An entry may be a whole PNG file since Windows Vista; size 256 is written as 0.
    """
    header = struct.pack("<HHH", 0, 1, len(pictures))
    offset = len(header) + 16 * len(pictures)
    entries = b""
    for size, png in pictures.items():
        side = size % 256
        entries += struct.pack("<BBBBHHII", side, side, 0, 0, 1, 32, len(png), offset)
        offset += len(png)
    return header + entries + b"".join(pictures.values())


def main() -> None:
    """Write `upreel-<size>.png` for every size and `upreel.ico` next to the drawing."""
    app = QGuiApplication([])
    ET.register_namespace("", SVG_NAMESPACE)
    svg = (HERE / "upreel.svg").read_text(encoding="utf-8")
    pictures = {size: render_png(svg, size) for size in SIZES}
    for size, png in pictures.items():
        (HERE / f"upreel-{size}.png").write_bytes(png)
    (HERE / "upreel.ico").write_bytes(pack_ico({size: pictures[size] for size in ICO_SIZES}))
    app.quit()


if __name__ == "__main__":
    main()
