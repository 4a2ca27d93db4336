"""What the canvas shows and how it is painted: source, result, difference, tiles, labels."""

from __future__ import annotations

from enum import StrEnum

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QImage, QPainter

from app.i18n import tr
from app.preview import overlays, pixels
from app.preview.tile_map import TileMap
from app.preview.viewport import Viewport
from app.theme import tokens

NEAREST_ABOVE = 2.0  # zoom from which single pixels are shown as squares
_GAP = 8  # px between the two pictures side by side
_VEIL = QColor(20, 22, 26, 110)  # over the source where the result is not made yet


class Mode(StrEnum):
    """What is shown."""

    ORIGINAL = "original"
    RESULT = "result"
    SPLIT = "split"
    SIDE = "side-by-side"
    DIFFERENCE = "difference"


class Scene:
    """The pictures of one frame; paints them through a viewport. Knows no mouse and no keys."""

    def __init__(self) -> None:
        self.mode = Mode.ORIGINAL
        self.split = 0.5  # 0 to 1 of the visible picture
        self.labels = ("", "")
        self.is_live = False  # the frame in work is shown, not one that was asked for
        self.no_result_text = ""  # why the frame has none, in words
        self.no_source_text = ""
        self.are_tiles_shown = True
        self.viewport = Viewport()
        self.tile_map = TileMap()
        self._source, self._result = pixels.Layer(), pixels.Layer()
        self._difference: pixels.Layer | None = None

    def set_pictures(self, source: QImage, result: QImage) -> None:
        """Another frame; null images for what there is not."""
        self._source, self._result = pixels.Layer(source), pixels.Layer(result)
        self._difference = None

    @property
    def shows_tiles(self) -> bool:
        """True when tiles take the place of the result.

        A frame of one tile is better shown by its preview, which is larger and has its source.
        """
        if not self.is_live or self.tile_map.is_empty:
            return False
        return self.tile_map.tiles > 1 or self._result.is_empty

    def panes(self, whole: QRectF) -> list[tuple[QRectF, str]]:
        """Parts of the widget and what each shows: "source", "result", "split", "difference"."""
        if self.mode is not Mode.SIDE:
            return [(whole, "source" if self.mode is Mode.ORIGINAL else str(self.mode.value))]
        width = (whole.width() - _GAP) / 2
        left = QRectF(whole.left(), whole.top(), width, whole.height())
        return [(left, "source"), (left.translated(width + _GAP, 0), "result")]

    def target(self, pane: QRectF) -> QRectF:
        """Where the whole picture of a pane lies on the widget."""
        return self.viewport.target.translated(pane.topLeft())

    def visible(self, whole: QRectF) -> QRectF:
        """The part of the first pane that its picture covers."""
        pane = self.panes(whole)[0][0]
        return self.target(pane) & pane

    def split_x(self, whole: QRectF) -> float:
        """Where the line is, in px of the widget."""
        visible = self.visible(whole)
        return visible.left() + self.split * visible.width()

    def paint(self, painter: QPainter, whole: QRectF) -> None:
        """Everything but the focus ring."""
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        well = QColor(_well())
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(well)
        for pane, shows in self.panes(whole):
            target = self.target(pane)
            area = target & pane
            painter.drawRoundedRect(pane, tokens.RADIUS, tokens.RADIUS)
            if area.isEmpty():
                continue
            painter.save()
            painter.setClipRect(area)
            self._paint_pane(painter, area, target, shows)
            painter.restore()
            overlays.round_corners(painter, pane, QColor(tokens.current().background))
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(well)

    def _paint_pane(self, painter: QPainter, area: QRectF, target: QRectF, shows: str) -> None:
        if shows == "source":
            self._paint_source(painter, area, target)
            overlays.draw_label(painter, area, self.labels[0], at_right=False)
        elif shows == "result":
            self._paint_result(painter, area, target)
            at_right = self.mode is Mode.RESULT
            overlays.draw_label(painter, area, self.labels[1], at_right=at_right)
        elif shows == "split":
            self._paint_split(painter, area, target)
        else:
            self._paint_difference(painter, area, target)

    def _paint_layer(self, painter: QPainter, layer: pixels.Layer, target: QRectF) -> None:
        if layer.is_empty:
            painter.fillRect(target, QColor(tokens.current().surface_2))
            return
        is_smooth = self.viewport.zoom <= NEAREST_ABOVE
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, is_smooth)
        ratio = self.viewport.ratio
        size = QSize(round(target.width() * ratio), round(target.height() * ratio))
        painter.drawImage(target, layer.for_size(size) if is_smooth else layer.image)

    def _paint_source(self, painter: QPainter, area: QRectF, target: QRectF) -> None:
        self._paint_layer(painter, self._source, target)
        if self._source.is_empty and self.no_source_text:
            overlays.draw_message(painter, area, self.no_source_text)

    def _paint_result(self, painter: QPainter, area: QRectF, target: QRectF) -> None:
        if self.shows_tiles:
            self._paint_layer(painter, self._source, target)
            self.tile_map.paint(painter, target, with_marks=self.are_tiles_shown)
            return
        if not self._result.is_empty:
            self._paint_layer(painter, self._result, target)
            return
        self._paint_layer(painter, self._source, target)
        painter.fillRect(area, _VEIL)
        overlays.draw_message(painter, area, self.no_result_text)

    def _paint_split(self, painter: QPainter, area: QRectF, target: QRectF) -> None:
        x = area.left() + self.split * area.width()
        left, right = QRectF(area), QRectF(area)
        left.setRight(x)
        right.setLeft(x)
        painter.save()
        painter.setClipRect(left)
        self._paint_source(painter, left, target)
        painter.setClipRect(right)
        self._paint_result(painter, right, target)
        painter.restore()
        overlays.draw_label(painter, left, self.labels[0], at_right=False)
        overlays.draw_label(painter, right, self.labels[1], at_right=True)
        overlays.draw_split(painter, area, x)

    def _paint_difference(self, painter: QPainter, area: QRectF, target: QRectF) -> None:
        if self._source.is_empty or self._result.is_empty:
            self._paint_layer(painter, self._source, target)
            painter.fillRect(area, _VEIL)
            overlays.draw_message(painter, area, self.no_result_text)
            return
        if self._difference is None:  # once for a pair, and only when somebody looks
            image = pixels.difference(self._source.image, self._result.image)
            self._difference = pixels.Layer(image)
        self._paint_layer(painter, self._difference, target)
        label = tr("Difference, {factor} times as bright", factor=pixels.AMPLIFIED)
        overlays.draw_label(painter, area, label, at_right=False)


def _well() -> str:
    """What the picture lies in, where it does not fill its pane."""
    theme = tokens.current()
    return tokens.mixed("#000000", theme.background, 0.35 if theme.is_dark else 0.07)
