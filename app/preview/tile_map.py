"""Tiles as they finish: their pictures fill the frame, the rest is dimmed, edges are drawn."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPen, QRegion

from app.theme import tokens
from engine.core.geometry import Box, Size

LONGEST_SIDE = 1280  # px of the layer that collects the small pictures
_DIM = 150  # opacity of what is not finished, of 255


class TileMap:
    """Tiles of the frame in work; painted over its picture by the view that shows it."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything: another job."""
        self.canvas = Size(0, 0)
        self.frame = -1
        self.last_tile = -1
        self.tiles = 0
        self._boxes: dict[int, Box] = {}  # of all tiles seen: every frame has the same grid
        self._cells: dict[int, Box] = {}  # the same without what neighbours share
        self._done: set[int] = set()
        self._has_pictures = False
        self._base = QImage()  # the frame before
        self._layer = QImage()  # finished tiles of this frame; transparent elsewhere

    @property
    def is_empty(self) -> bool:
        """True until the first tile."""
        return self.frame < 0

    @property
    def picture_size(self) -> QSize:
        """Size of the collected picture, in px of its own."""
        return self._layer.size()

    def add(
        self, frame: int, tile: int, tiles: int, box: Box, canvas: Size, picture: QImage | None
    ) -> set[Box]:
        """Take a finished tile; returns the parts of the canvas that look different now."""
        changed = {box}
        if canvas != self.canvas or tiles != self.tiles:
            self.clear()
            self.canvas, self.tiles = canvas, tiles
        if frame != self.frame or tile in self._done:
            self._begin(frame, covers_all=box.size == canvas)
            changed = {Box(0, 0, canvas.width, canvas.height)}
        changed.update(filter(None, [self.active_box()]))
        if self._boxes.get(tile) != box:
            self._boxes[tile] = box
            self._cells.clear()
        self._done.add(tile)
        self.last_tile = tile
        if picture is not None and not picture.isNull():
            self._draw(box, picture)
        changed.update(filter(None, [self.active_box()]))
        return changed

    def active_box(self) -> Box | None:
        """The tile in work: the one after the last, once a first frame has shown the grid."""
        following = self.last_tile + 1
        return None if following in self._done else self._boxes.get(following)

    def cell(self, tile: int) -> Box:
        """A tile up to the middle of what it shares with the neighbours known so far."""
        if tile not in self._cells:
            self._cells[tile] = _cell(self._boxes[tile], self._boxes.values())
        return self._cells[tile]

    def paint(self, painter: QPainter, target: QRectF, *, with_marks: bool) -> None:
        """Paint pictures, and with `with_marks` dimming and edges, the canvas being `target`."""
        if self.is_empty or target.isEmpty():
            return
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        if self._has_pictures:
            if not self._base.isNull():
                painter.drawImage(target, self._base)
            if with_marks:
                self._paint_dimming(painter, target)
            painter.drawImage(target, self._layer)
        if with_marks and self.tiles > 1:
            self._paint_edges(painter, target)
        painter.restore()

    def on_target(self, box: Box, target: QRectF) -> QRectF:
        """Place of a box of the canvas on `target`."""
        across = target.width() / max(1, self.canvas.width)
        down = target.height() / max(1, self.canvas.height)
        return QRectF(
            target.x() + box.x * across,
            target.y() + box.y * down,
            box.width * across,
            box.height * down,
        )

    def _begin(self, frame: int, *, covers_all: bool) -> None:
        self.frame = frame
        self._done.clear()
        self.last_tile = -1
        self._has_pictures = False
        if covers_all or self._layer.isNull():
            return  # nothing of the frame before stays visible
        if self._base.isNull():
            self._base = QImage(self._layer.size(), QImage.Format.Format_RGB32)
            self._base.fill(Qt.GlobalColor.black)
        painter = QPainter(self._base)
        painter.drawImage(0, 0, self._layer)
        painter.end()
        self._layer.fill(Qt.GlobalColor.transparent)

    def _draw(self, box: Box, picture: QImage) -> None:
        if self._layer.isNull():
            self._layer = QImage(
                self._layer_size(box, picture), QImage.Format.Format_ARGB32_Premultiplied
            )
            self._layer.fill(Qt.GlobalColor.transparent)
        self._has_pictures = True
        size = self._layer.size()
        spot = self.on_target(box, QRectF(0, 0, size.width(), size.height())).toAlignedRect()
        painter = QPainter(self._layer)
        painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_Source)
        if spot.size() == picture.size():
            painter.drawImage(spot.topLeft(), picture)
        else:
            painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
            painter.drawImage(spot, picture)
        painter.end()

    def _layer_size(self, box: Box, picture: QImage) -> QSize:
        """Resolution of the images of the tiles, within limits."""
        fineness = picture.width() / max(1, box.width)
        longest = max(self.canvas.width, self.canvas.height)
        fineness = min(fineness, LONGEST_SIDE / longest, 1.0)
        return QSize(
            max(1, round(self.canvas.width * fineness)),
            max(1, round(self.canvas.height * fineness)),
        )

    def _paint_dimming(self, painter: QPainter, target: QRectF) -> None:
        waiting = QRegion(target.toAlignedRect())
        for tile in self._done:
            waiting -= QRegion(self.on_target(self.cell(tile), target).toRect())
        colour = QColor(tokens.DARK.background)  # pictures are dimmed to dark in both themes
        colour.setAlpha(_DIM)
        painter.save()
        painter.setClipRegion(waiting, Qt.ClipOperation.IntersectClip)
        painter.fillRect(waiting.boundingRect(), colour)
        painter.restore()

    def _paint_edges(self, painter: QPainter, target: QRectF) -> None:
        painter.setBrush(Qt.BrushStyle.NoBrush)
        accent = QColor(tokens.DARK.accent)  # the bright one reads best on any picture
        thin = QColor(accent)
        thin.setAlpha(120)
        painter.setPen(QPen(thin, 1))
        for tile in self._done:
            edge = self.on_target(self.cell(tile), target)
            painter.drawRect(edge.adjusted(0.5, 0.5, -0.5, -0.5))
        if self.active_box() is not None:
            edge = self.on_target(self.cell(self.last_tile + 1), target)
            painter.setPen(QPen(accent, 2))
            painter.drawRect(edge.adjusted(1, 1, -1, -1))


def _cell(box: Box, others: Iterable[Box]) -> Box:
    """`box` up to the middle of what it shares with its neighbours in row and column."""
    left, top, right, bottom = box.x, box.y, box.right, box.bottom
    for other in others:
        if other.y == box.y and other.x < box.x < other.right:
            left = max(left, (box.x + other.right) // 2)
        if other.y == box.y and box.x < other.x < box.right:
            right = min(right, (other.x + box.right) // 2)
        if other.x == box.x and other.y < box.y < other.bottom:
            top = max(top, (box.y + other.bottom) // 2)
        if other.x == box.x and box.y < other.y < box.bottom:
            bottom = min(bottom, (other.y + box.bottom) // 2)
    return Box(left, top, right - left, bottom - top)
