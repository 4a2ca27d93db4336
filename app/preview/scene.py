"""Scene of the preview of two videos: each, both, their difference, tiles, labels."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from PySide6.QtCore import QPointF, QRectF, QSize, QSizeF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QImage, QPainter, QPainterPath, QPen, QPolygonF

from app.i18n import tr
from app.preview.tile_map import TileMap
from app.preview.viewport import Viewport
from app.theme import tokens
from app.theme.fonts import interface_font
from engine.protocol.events import Picture

AMPLIFIED = 4  # times, of the difference


def to_image(picture: Picture) -> QImage:
    """A picture of its own memory; a null one when the bytes do not match the size."""
    width, height = picture.size.width, picture.size.height
    if len(picture.rgb) != width * height * 3:
        return QImage()
    image = QImage(picture.rgb, width, height, width * 3, QImage.Format.Format_RGB888)
    return image.convertToFormat(QImage.Format.Format_RGB32)  # the format that paints fastest


def difference(first: QImage, second: QImage) -> QImage:
    """Absolute difference, `AMPLIFIED` times as bright, at the size of the larger one."""
    size = max((first.size(), second.size()), key=lambda one: one.width() * one.height())
    result = QImage(size, QImage.Format.Format_RGB32)
    if result.isNull():
        return result
    painter = QPainter(result)
    painter.drawImage(0, 0, resized(first, size))
    painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_Difference)
    painter.drawImage(0, 0, resized(second, size))
    painter.end()
    doublings = AMPLIFIED.bit_length() - 1
    for _ in range(doublings):
        once = result.copy()
        painter = QPainter(result)
        painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_Plus)
        painter.drawImage(0, 0, once)
        painter.end()
    return result


def resized(image: QImage, size: QSize) -> QImage:
    """The image at another size, averaged when it becomes smaller."""
    if image.size() == size:
        return image
    return image.scaled(
        size, Qt.AspectRatioMode.IgnoreAspectRatio, Qt.TransformationMode.SmoothTransformation
    )


class Layer:
    """An image with the last reduced copy of it, so that a moving line costs no new scaling."""

    def __init__(self, image: QImage | None = None) -> None:
        self.image = image if image is not None else QImage()
        self._reduced = QImage()

    @property
    def is_empty(self) -> bool:
        """True while there is nothing to show."""
        return self.image.isNull()

    def for_size(self, size: QSize) -> QImage:
        """The image to paint into `size` device pixels: itself, or an averaged smaller copy.

        Painters only interpolate between neighbours: strongly reduced pictures would shimmer.
        """
        if self.image.width() <= size.width() * 1.2 or size.isEmpty():
            return self.image
        if self._reduced.size() != size:
            self._reduced = resized(self.image, size)
        return self._reduced


# Over pictures everything is white on dark glass, in both themes: what lies below is unknown.
GLASS = QColor(20, 22, 26, 205)
INK = QColor("#ECEEF2")
HANDLE_RADIUS = 14.0
_INSET = 10.0
_LEAST_LABEL = 110.0  # px; a longer one is cut where there is less room


def label_rect(area: QRectF, text: str, *, at_right: bool) -> QRectF:
    """Place of a label in the upper corner of an area; empty where the area is too small."""
    wanted, room = _label_width(text), area.width() - 2 * _INSET
    if not text or room < min(wanted, _LEAST_LABEL) or area.height() < 60:
        return QRectF()
    size = QSizeF(min(wanted, room), 26)
    left = area.right() - _INSET - size.width() if at_right else area.left() + _INSET
    return QRectF(QPointF(left, area.top() + _INSET), size)


def fitting(area: QRectF, texts: Sequence[str]) -> str:
    """The first text that fits into a label in an area; else the last one, which is cut."""
    whole = (text for text in texts if _label_width(text) <= area.width() - 2 * _INSET)
    return next(whole, texts[-1])


def _label_width(text: str) -> float:
    return QFontMetricsF(interface_font(tokens.SMALL_PX)).horizontalAdvance(text) + 20


def draw_label(painter: QPainter, area: QRectF, texts: Sequence[str], *, at_right: bool) -> None:
    """A label in the upper left or right corner of an area: the first text that fits there."""
    text = fitting(area, texts)
    rect = label_rect(area, text, at_right=at_right)
    if rect.isEmpty():
        return
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(GLASS)
    painter.drawRoundedRect(rect, 6, 6)
    painter.setPen(INK)
    font = interface_font(tokens.SMALL_PX)
    painter.setFont(font)
    elide = Qt.TextElideMode.ElideRight
    shown = QFontMetricsF(font).elidedText(text, elide, rect.width() - 16)
    painter.drawText(rect, Qt.AlignmentFlag.AlignCenter, shown)


def draw_message(painter: QPainter, area: QRectF, text: str) -> None:
    """A sentence in the middle of an area, broken into lines where it is narrow."""
    font = interface_font(tokens.BODY_PX)
    room = QRectF(0, 0, max(40.0, min(area.width() - 48, 360.0)), 1000)
    wrapped = int(Qt.AlignmentFlag.AlignCenter) | int(Qt.TextFlag.TextWordWrap)
    needed = QFontMetricsF(font).boundingRect(room, wrapped, text).size()
    box = QRectF(0, 0, needed.width() + 32, needed.height() + 18)
    box.moveCenter(area.center())
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(GLASS)
    painter.drawRoundedRect(box, tokens.RADIUS, tokens.RADIUS)
    painter.setPen(INK)
    painter.setFont(font)
    painter.drawText(box.adjusted(12, 0, -12, 0), wrapped, text)


def draw_split(painter: QPainter, area: QRectF, x: float) -> None:
    """The line between the two videos with its handle."""
    shadow = QColor(0, 0, 0, 90)
    painter.fillRect(QRectF(x - 2, area.top(), 4, area.height()), shadow)
    painter.fillRect(QRectF(x - 1, area.top(), 2, area.height()), INK)
    middle = QPointF(x, area.center().y())
    painter.setPen(QPen(shadow, 1))
    painter.setBrush(INK)
    painter.drawEllipse(middle, HANDLE_RADIUS, HANDLE_RADIUS)
    painter.setPen(
        QPen(
            QColor(tokens.DARK.surface_1),
            2,
            Qt.PenStyle.SolidLine,
            Qt.PenCapStyle.RoundCap,
            Qt.PenJoinStyle.RoundJoin,
        )
    )
    for side in (-1, 1):
        tip, back = middle.x() + side * 7, middle.x() + side * 3.5
        points = [(back, -3.5), (tip, 0), (back, 3.5)]
        painter.drawPolyline(QPolygonF([QPointF(px, middle.y() + dy) for px, dy in points]))


def round_corners(painter: QPainter, area: QRectF, colour: QColor) -> None:
    """Cover the corners of an area, so that the picture in it looks rounded."""
    path = QPainterPath()
    path.addRect(area.adjusted(-1, -1, 1, 1))
    inner = QPainterPath()
    inner.addRoundedRect(area, tokens.RADIUS, tokens.RADIUS)
    painter.fillPath(path - inner, colour)


def draw_focus(painter: QPainter, area: QRectF) -> None:
    """The ring that shows where the keyboard is."""
    painter.setPen(QPen(QColor(tokens.current().accent), 2))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawRoundedRect(area.adjusted(1, 1, -1, -1), tokens.RADIUS, tokens.RADIUS)


NEAREST_ABOVE = 2.0  # zoom from which single pixels are shown as squares
_GAP = 8  # px between the two pictures side by side
_MISSING = QColor("#262626")  # where a picture will be
_VEIL = QColor(20, 22, 26, 110)  # over the first video where the second has no picture


class Mode(StrEnum):
    """Panes for two videos: one, or both."""

    FIRST = "first"
    SECOND = "second"
    SPLIT = "split"
    SIDE = "side-by-side"
    DIFFERENCE = "difference"


class Scene:
    """The pictures of one frame; paints them through a viewport. Knows no mouse and no keys."""

    def __init__(self) -> None:
        self.mode = Mode.FIRST
        self.split = 0.5  # 0 to 1 of the visible picture
        self.label_texts: tuple[Sequence[str], Sequence[str]] = (("",), ("",))
        self.is_live = False  # the frame in work is shown, not one that was asked for
        self.missing_texts = ("", "")  # why a video has no picture of the frame
        self.are_tiles_shown = True
        self.viewport = Viewport()
        self.tile_map = TileMap()
        self._first, self._second = Layer(), Layer()
        self._difference: Layer | None = None

    @property
    def labels(self) -> tuple[str, str]:
        """Names of the two pictures, in full."""
        return self.label_texts[0][0], self.label_texts[1][0]

    def set_pictures(self, first: QImage, second: QImage) -> None:
        """Another frame; null images for what there is not."""
        self._first, self._second = Layer(first), Layer(second)
        self._difference = None

    @property
    def shows_tiles(self) -> bool:
        """True when tiles take the place of the second video.

        A frame of one tile is shown with its source, which comes a little later, if there is one.
        """
        if not self.is_live or self.tile_map.is_empty:
            return False
        return self.tile_map.tiles > 1 or (self._first.is_empty and self._second.is_empty)

    def panes(self, whole: QRectF) -> list[tuple[QRectF, str]]:
        """Parts of the widget and what each shows: "first", "second", "split", "difference"."""
        if self.mode is not Mode.SIDE:
            return [(whole, str(self.mode.value))]
        width = (whole.width() - _GAP) / 2
        left = QRectF(whole.left(), whole.top(), width, whole.height())
        return [(left, "first"), (left.translated(width + _GAP, 0), "second")]

    def target(self, pane: QRectF) -> QRectF:
        """Place of the whole frame of a pane on the widget."""
        return self.viewport.target.translated(pane.topLeft())

    def visible(self, whole: QRectF) -> QRectF:
        """The part of the first pane that its picture covers."""
        pane = self.panes(whole)[0][0]
        return self.target(pane) & pane

    def paint(self, painter: QPainter, whole: QRectF) -> None:
        """Everything but the focus ring."""
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(whole, QColor(tokens.SURROUND))
        for pane, shows in self.panes(whole):
            target = self.target(pane)
            area = target & pane
            if area.isEmpty():
                continue
            painter.save()
            painter.setClipRect(area)
            self._paint_pane(painter, area, target, shows)
            painter.restore()
        round_corners(painter, whole, QColor(tokens.current().background))

    def _paint_pane(self, painter: QPainter, area: QRectF, target: QRectF, shows: str) -> None:
        if shows == "first":
            self._paint_first(painter, area, target)
            draw_label(painter, area, self.label_texts[0], at_right=False)
        elif shows == "second":
            self._paint_second(painter, area, target)
            at_right = self.mode is Mode.SECOND
            draw_label(painter, area, self.label_texts[1], at_right=at_right)
        elif shows == "split":
            self._paint_split(painter, area, target)
        else:
            self._paint_difference(painter, area, target)

    def _paint_layer(self, painter: QPainter, layer: Layer, target: QRectF) -> None:
        if layer.is_empty:
            painter.fillRect(target, _MISSING)
            return
        is_smooth = self.viewport.zoom <= NEAREST_ABOVE
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, is_smooth)
        ratio = self.viewport.ratio
        size = QSize(round(target.width() * ratio), round(target.height() * ratio))
        painter.drawImage(target, layer.for_size(size) if is_smooth else layer.image)

    def _paint_first(self, painter: QPainter, area: QRectF, target: QRectF) -> None:
        self._paint_layer(painter, self._first, target)
        if self._first.is_empty and self.missing_texts[0]:
            draw_message(painter, area, self.missing_texts[0])

    def _paint_second(self, painter: QPainter, area: QRectF, target: QRectF) -> None:
        if self.shows_tiles:
            self._paint_layer(painter, self._first, target)
            self.tile_map.paint(painter, target, with_marks=self.are_tiles_shown)
            return
        if not self._second.is_empty:
            self._paint_layer(painter, self._second, target)
            return
        self._paint_layer(painter, self._first, target)
        painter.fillRect(area, _VEIL)
        draw_message(painter, area, self.missing_texts[1])

    def _paint_split(self, painter: QPainter, area: QRectF, target: QRectF) -> None:
        x = area.left() + self.split * area.width()
        left, right = QRectF(area), QRectF(area)
        left.setRight(x)
        right.setLeft(x)
        painter.save()
        painter.setClipRect(left)
        self._paint_first(painter, left, target)
        painter.setClipRect(right)
        self._paint_second(painter, right, target)
        painter.restore()
        draw_label(painter, left, self.label_texts[0], at_right=False)
        draw_label(painter, right, self.label_texts[1], at_right=True)
        draw_split(painter, area, x)

    def _paint_difference(self, painter: QPainter, area: QRectF, target: QRectF) -> None:
        if self._first.is_empty or self._second.is_empty:
            self._paint_layer(painter, self._first, target)
            painter.fillRect(area, _VEIL)
            draw_message(painter, area, self.missing_texts[0 if self._first.is_empty else 1])
            return
        if self._difference is None:  # once for a pair, and only when it is shown
            image = difference(self._first.image, self._second.image)
            self._difference = Layer(image)
        self._paint_layer(painter, self._difference, target)
        label = tr("Difference, amplified {factor}×", factor=AMPLIFIED)
        draw_label(painter, area, [label], at_right=False)
