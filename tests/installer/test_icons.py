import struct
import xml.etree.ElementTree as ET
from pathlib import Path

ICONS = Path(__file__).parents[2] / "resources" / "icons"
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
SIZES = (16, 20, 24, 32, 40, 48, 64, 128, 256, 512)


def png_size(data: bytes) -> tuple[int, int]:
    assert data.startswith(PNG_SIGNATURE)
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def test_application_icon_has_every_size_and_ico_the_same_pictures_up_to_256():
    for size in SIZES:
        assert png_size((ICONS / f"upreel-{size}.png").read_bytes()) == (size, size)
    data = (ICONS / "upreel.ico").read_bytes()
    reserved, kind, count = struct.unpack_from("<HHH", data)
    assert (reserved, kind) == (0, 1)
    found, end = [], 6 + 16 * count
    for index in range(count):
        width, height, _, _, _, bits, length, offset = struct.unpack_from(
            "<BBBBHHII", data, 6 + 16 * index
        )
        assert offset == end, "pictures follow each other without a gap"
        picture = data[offset : offset + length]
        assert png_size(picture) == (width or 256, height or 256)
        assert bits == 32
        assert picture == (ICONS / f"upreel-{width or 256}.png").read_bytes()
        found.append(width or 256)
        end = offset + length
    assert tuple(found) == tuple(size for size in SIZES if size <= 256)
    assert end == len(data)


def test_window_icons_are_drawn_in_the_colour_that_is_replaced():
    drawn = [path for path in ICONS.glob("*.svg") if path.stem != "upreel"]
    assert {"add", "play", "pause", "cancel", "retry"} <= {path.stem for path in drawn}
    for path in drawn:
        root = ET.fromstring(path.read_text(encoding="utf-8"))
        assert (root.get("viewBox"), root.get("stroke")) == ("0 0 20 20", "#A9B0BC"), path
        assert len(root) >= 1
