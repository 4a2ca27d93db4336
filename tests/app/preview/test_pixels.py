from PySide6.QtCore import QSize
from PySide6.QtGui import QColor

from app.preview import scene
from engine.core.geometry import Size
from engine.protocol.events import Picture
from tests.app.preview.conftest import image_of


def test_the_image_outlives_the_bytes_and_is_empty_if_they_do_not_match_its_size():
    assert scene.to_image(Picture(size=Size(4, 4), rgb=b"\0")).isNull()
    image = scene.to_image(Picture(size=Size(64, 64), rgb=bytes([7, 8, 9]) * 4096))
    assert image.pixelColor(63, 63).getRgb() == (7, 8, 9, 255)


def test_the_difference_is_absolute_four_times_as_bright_and_has_the_size_of_the_result():
    first, second = image_of(QColor(100, 50, 0), 4, 4), image_of(QColor(90, 60, 200), 4, 4)
    for a, b in ((first, second), (second, first)):
        assert scene.difference(a, b).pixelColor(2, 2).getRgb() == (40, 40, 255, 255)
    grey = QColor(9, 9, 9)
    shown = scene.difference(image_of(grey, 4, 4), image_of(grey, 8, 8))
    assert shown.size() == QSize(8, 8)
    assert shown.pixelColor(4, 4) == QColor(0, 0, 0)


def test_strongly_reduced_pictures_are_averaged_once():
    layer = scene.Layer(image_of(QColor(10, 20, 30), 400, 400))
    small = layer.for_size(QSize(100, 100))
    assert small.size() == QSize(100, 100)
    assert layer.for_size(QSize(100, 100)).cacheKey() == small.cacheKey()
    assert layer.for_size(QSize(800, 800)).size() == QSize(400, 400)
