import pytest
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QImage, QPainter

from app.preview.tile_map import TileMap
from engine.core.geometry import Box, Size
from tests.app.preview.conftest import image_of

CANVAS = Size(400, 200)
GRID = [Box(x, y, 200, 100) for y in (0, 100) for x in (0, 200)]
SPOTS = [(50, 25), (150, 25), (50, 75), (150, 75)]  # inside each tile, painted at half size
COLOURS = [QColor(200, 0, 0), QColor(0, 200, 0), QColor(0, 0, 200), QColor(200, 200, 0)]
BACKGROUND = QColor(160, 160, 160)


def _add(tile_map: TileMap, frame: int, tile: int, colour: QColor | None) -> set[Box]:
    picture = None if colour is None else image_of(colour, 100, 50)
    return tile_map.add(frame, tile, len(GRID), GRID[tile], CANVAS, picture)


def _painted(tile_map: TileMap, *, with_marks: bool = True) -> QImage:
    image = image_of(BACKGROUND, 200, 100)
    painter = QPainter(image)
    tile_map.paint(painter, QRectF(0, 0, 200, 100), with_marks=with_marks)
    painter.end()
    return image


@pytest.fixture
def tile_map(qapp: object) -> TileMap:
    return TileMap()


def test_finished_tiles_are_shown_and_the_rest_and_the_frame_before_dimmed(tile_map):
    _add(tile_map, 0, 0, COLOURS[0])
    image = _painted(tile_map)
    assert image.pixelColor(*SPOTS[0]) == COLOURS[0]
    for spot in SPOTS[1:]:
        assert image.pixelColor(*spot).lightness() < 100
    assert _painted(tile_map, with_marks=False).pixelColor(*SPOTS[3]) == BACKGROUND
    for tile, colour in enumerate(COLOURS):
        _add(tile_map, 0, tile, colour)
    image = _painted(tile_map)
    assert [image.pixelColor(*spot) for spot in SPOTS] == COLOURS
    _add(tile_map, 1, 0, QColor(255, 255, 255))
    image = _painted(tile_map)
    assert image.pixelColor(*SPOTS[0]) == QColor(255, 255, 255)
    shown = image.pixelColor(*SPOTS[1])
    assert 40 < shown.green() < 200
    assert shown.green() > shown.red()


def test_tiles_without_pictures_draw_edges_and_the_next_is_in_work(tile_map):
    _add(tile_map, 0, 0, None)
    image = _painted(tile_map)
    assert image.pixelColor(*SPOTS[0]) == BACKGROUND
    assert image.pixelColor(*SPOTS[3]) == BACKGROUND
    assert image.pixelColor(50, 0) != BACKGROUND  # the upper edge of the first tile
    assert tile_map.active_box() is None  # the grid is not known yet
    for tile in (1, 2, 3):
        _add(tile_map, 0, tile, None)
    _add(tile_map, 1, 0, None)
    assert tile_map.active_box() == GRID[1]


def test_only_what_changed_is_repainted(tile_map):
    for tile in range(4):
        _add(tile_map, 0, tile, COLOURS[tile])
    assert Box(0, 0, 400, 200) in _add(tile_map, 1, 0, COLOURS[0])  # all tiles are dimmed again
    assert _add(tile_map, 1, 1, COLOURS[1]) == {GRID[1], GRID[2]}  # finished, and next in work


def test_another_size_starts_again_and_the_collected_picture_stays_small(tile_map):
    _add(tile_map, 0, 0, COLOURS[0])
    tile_map.add(0, 0, 1, Box(0, 0, 80, 40), Size(80, 40), image_of(COLOURS[2], 80, 40))
    assert tile_map.canvas == Size(80, 40)
    assert _painted(tile_map).pixelColor(*SPOTS[3]) == COLOURS[2]
    canvas = Size(7680, 4320)
    tile_map.add(0, 0, 1, Box(0, 0, 7680, 4320), canvas, image_of(COLOURS[1], 1920, 1080))
    assert max(tile_map.picture_size.width(), tile_map.picture_size.height()) <= 1280


def test_tiles_that_overlap_are_drawn_side_by_side(tile_map):
    canvas = Size(400, 100)
    boxes = [Box(0, 0, 160, 100), Box(120, 0, 160, 100), Box(240, 0, 160, 100)]
    for tile, box in enumerate(boxes):
        tile_map.add(0, tile, 3, box, canvas, None)
    cells = [tile_map.cell(tile) for tile in range(3)]
    assert cells == [Box(0, 0, 140, 100), Box(140, 0, 120, 100), Box(260, 0, 140, 100)]
