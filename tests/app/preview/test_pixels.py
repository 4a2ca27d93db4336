"""Pictures of events as images."""

from __future__ import annotations

from PySide6.QtCore import QSize
from PySide6.QtGui import QColor, QImage

from app.preview import scene
from engine.core.geometry import Size
from engine.protocol.events import Picture

RED, GREEN, BLUE, WHITE = "#ff0000", "#00ff00", "#0000ff", "#ffffff"


def _corners() -> Picture:
    """Two by two pixels: red, green / blue, white."""
    colours = [QColor(name) for name in (RED, GREEN, BLUE, WHITE)]
    rgb = b"".join(bytes((c.red(), c.green(), c.blue())) for c in colours)
    return Picture(size=Size(2, 2), rgb=rgb)


def _names(image: QImage) -> list[str]:
    return [image.pixelColor(x, y).name() for y in range(2) for x in range(2)]


def test_bytes_that_do_not_match_the_size_show_nothing() -> None:
    assert scene.to_image(Picture(size=Size(4, 4), rgb=b"\0")).isNull()


def test_the_image_outlives_the_bytes() -> None:
    image = scene.to_image(Picture(size=Size(64, 64), rgb=bytes([7, 8, 9]) * 4096))
    assert image.pixelColor(63, 63).getRgb() == (7, 8, 9, 255)


def _flat(size: int, colour: QColor) -> QImage:
    image = QImage(size, size, QImage.Format.Format_RGB32)
    image.fill(colour)
    return image


def test_the_difference_of_equal_pictures_is_black() -> None:
    image = scene.to_image(_corners())
    shown = scene.difference(image, image)
    assert _names(shown) == ["#000000"] * 4


def test_the_difference_is_absolute_and_four_times_as_bright() -> None:
    first, second = _flat(4, QColor(100, 50, 0)), _flat(4, QColor(90, 60, 200))
    for a, b in ((first, second), (second, first)):
        assert scene.difference(a, b).pixelColor(2, 2).getRgb() == (40, 40, 255, 255)


def test_the_difference_has_the_size_of_the_result() -> None:
    shown = scene.difference(_flat(4, QColor(9, 9, 9)), _flat(8, QColor(9, 9, 9)))
    assert shown.size() == QSize(8, 8)
    assert shown.pixelColor(4, 4) == QColor(0, 0, 0)


def test_strongly_reduced_pictures_are_averaged_once() -> None:
    layer = scene.Layer(_flat(400, QColor(10, 20, 30)))
    small = layer.for_size(QSize(100, 100))
    assert small.size() == QSize(100, 100)
    assert layer.for_size(QSize(100, 100)).cacheKey() == small.cacheKey()
    assert layer.for_size(QSize(800, 800)).size() == QSize(400, 400)
