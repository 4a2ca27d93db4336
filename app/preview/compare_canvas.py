"""Two videos on one widget: split line, zoom and pan. Nothing moves by itself."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import (
    QEasingCurve,
    QEvent,
    QPointF,
    QRectF,
    QSize,
    QSizeF,
    Qt,
    QVariantAnimation,
    Signal,
)
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPixmap,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from app import desktop
from app.bound import bind
from app.i18n import mark
from app.preview import scene
from app.preview.scene import Mode, Scene
from app.preview.viewport import STEP
from app.theme import tokens
from app.widgets.parts import bind_text, named
from app.widgets.plain import Label
from engine.core.geometry import Box

_SWEEP_MS = 550
_ARROWS = {
    Qt.Key.Key_Left: (-1, 0),
    Qt.Key.Key_Right: (1, 0),
    Qt.Key.Key_Up: (0, -1),
    Qt.Key.Key_Down: (0, 1),
}
KEYS = (  # what the picture knows while it has the keyboard, for the list of keys
    (("+", "-"), mark("Zoom in or out")),
    (("0", "1"), mark("Whole image, or 100 %")),
    (("T",), mark("Show or hide tiles")),
    (("Home", "End"), mark("Move the divider to the left or right edge")),
    (("Shift+Left", "Shift+Right"), mark("Move the divider or the image")),
)


class CompareCanvas(Label):
    """Shows two pictures of one frame so that they can be compared.

    A label with a picture, as that is what screen readers call a picture; it paints its own.
    """

    zoom_changed = Signal(float)  # device pixels for one pixel of the result
    split_changed = Signal(float)  # 0 to 1 of the visible picture
    tiles_toggled = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent=parent)
        named(self, "compareCanvas")
        self.setPixmap(QPixmap(1, 1))
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumSize(240, 72)
        self.scene = Scene()
        self._dragging = ""  # "split" or "pan" while a mouse button is down
        self._last_point = QPointF()
        self._keyboard_focus = False
        self._sweep = QVariantAnimation(self)
        self._sweep.setDuration(_SWEEP_MS)
        self._sweep.setEasingCurve(QEasingCurve.Type.InOutCubic)
        self._sweep.valueChanged.connect(self._move_line)
        bind(self, self.update)  # painted texts are translated when they are painted
        bind_text(
            self,
            self.setAccessibleDescription,
            "Left and right: previous or next frame. Shift and arrow keys: move the divider "
            "or the image. Plus and minus: zoom. 0: fit. 1: 100 %. H: show the original, or A.",
        )

    # What is shown

    @property
    def mode(self) -> Mode:
        """Mode that is shown."""
        return self.scene.mode

    def set_mode(self, mode: Mode) -> None:
        """Show the pictures in another mode; zoom and position stay."""
        self.scene.mode = mode
        self._update_view()
        self._update_cursor()
        self.update()

    @property
    def split(self) -> float:
        """Place of the line: 0 to 1 of the visible picture."""
        return self.scene.split

    def set_split(self, split: float) -> None:
        """Move the line."""
        self._sweep.stop()
        self._move_line(split)

    def sweep(self) -> None:
        """Uncover the second video once: the line comes from the right edge to its place.

        Where the system asks for less motion, it is there at once.
        """
        self._sweep.stop()
        if desktop.allows_motion():
            self._sweep.setStartValue(1.0)
            self._sweep.setEndValue(self.scene.split)
            self._sweep.start()

    def _move_line(self, split: float) -> None:
        split = min(max(split, 0.0), 1.0)
        if split != self.scene.split:
            self.scene.split = split
            self.split_changed.emit(split)
            self.update()

    def set_content(self, content: QSizeF) -> None:
        """Size of the larger result as seen, in its pixels; both pictures are painted at it."""
        if content != self.scene.viewport.content:
            self.scene.viewport.set_content(content)
            self._zoomed()

    def set_pictures(self, first: QImage, second: QImage) -> None:
        """Another frame; null images for what there is not."""
        self.scene.set_pictures(first, second)
        self.update()

    def set_missing_texts(self, first: str, second: str) -> None:
        """Why each video has no picture of the frame, as text; "" while one is on its way."""
        if (first, second) != self.scene.missing_texts:
            self.scene.missing_texts = (first, second)
            self.update()

    def set_labels(self, first: Sequence[str], second: Sequence[str]) -> None:
        """Names of the two pictures, shown in their corners; the first one of each that fits."""
        if (first, second) != self.scene.label_texts:
            self.scene.label_texts = (first, second)
            self.update()

    def set_live(self, is_live: bool) -> None:
        """Whether the frame in work is shown."""
        if is_live != self.scene.is_live:
            self.scene.is_live = is_live
            self.update()

    def show_tiles(self, shown: bool) -> None:
        """Draw or hide dimming and edges of tiles; their pictures stay."""
        self.scene.are_tiles_shown = shown
        self.update()

    def tile_changed(self, box: Box) -> None:
        """Repaint a part of the tile map's canvas, where it is visible."""
        scene = self.scene
        if not scene.shows_tiles or scene.mode in (Mode.FIRST, Mode.DIFFERENCE):
            return
        for pane, shows in scene.panes(QRectF(self.rect())):
            if shows != "first":
                rect = scene.tile_map.on_target(box, scene.target(pane))
                self.update(rect.toAlignedRect().adjusted(-3, -3, 3, 3))

    # Zoom

    @property
    def zoom(self) -> float:
        """Device pixels for one pixel of the result."""
        return self.scene.viewport.zoom

    def fit(self) -> None:
        """Show all of the picture."""
        self.scene.viewport.fit()
        self._zoomed()

    def zoom_to(self, zoom: float, at: QPointF | None = None) -> None:
        """Zoom around a point of the widget, or the middle of the view."""
        self.scene.viewport.zoom_to(zoom, None if at is None else self._in_pane(at))
        self._zoomed()

    def _zoomed(self) -> None:
        self.zoom_changed.emit(self.zoom)
        self._update_cursor()
        self.update()

    def _in_pane(self, point: QPointF) -> QPointF:
        panes = [pane for pane, _ in self.scene.panes(QRectF(self.rect()))]
        return point - next((p for p in panes if p.contains(point)), panes[0]).topLeft()

    def _update_view(self) -> None:
        pane = self.scene.panes(QRectF(self.rect()))[0][0]
        self.scene.viewport.set_view(pane.size(), self.devicePixelRatioF())
        self.zoom_changed.emit(self.zoom)

    def sizeHint(self) -> QSize:
        """A video's shape."""
        return QSize(960, 540)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep what is fitted fitted."""
        super().resizeEvent(event)
        self._update_view()

    def event(self, event: QEvent) -> bool:
        """Follow another screen's pixel ratio."""
        if event.type() == QEvent.Type.DevicePixelRatioChange:
            self._update_view()
            self.update()
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        """The scene, and the ring that shows where the keyboard is."""
        painter = QPainter(self)
        painter.fillRect(event.rect(), QColor(tokens.current().background))
        self.scene.paint(painter, QRectF(self.rect()))
        if self._keyboard_focus:
            scene.draw_focus(painter, QRectF(self.rect()))

    # Mouse

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Take the line from anywhere in the picture; anything else moves the picture."""
        point = event.position()
        self._last_point = point
        is_left = event.button() == Qt.MouseButton.LeftButton
        moves_picture = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
        if is_left and not moves_picture and self._is_split_at(point):
            self._dragging = "split"
            self._drag_split(point)
        elif is_left or event.button() == Qt.MouseButton.MiddleButton:
            self._dragging = "pan"
            self._update_cursor()
        else:
            super().mousePressEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Follow the pointer."""
        point = event.position()
        delta, self._last_point = point - self._last_point, point
        if self._dragging == "split":
            self._drag_split(point)
        elif self._dragging == "pan":
            self.scene.viewport.pan(delta)
            self.update()
        else:
            self._update_cursor()

    def mouseReleaseEvent(self, _event: QMouseEvent) -> None:
        """Let go."""
        self._dragging = ""
        self._update_cursor()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zoom at the pointer."""
        notches = event.angleDelta().y() / 120
        if notches:
            self.zoom_to(self.zoom * STEP**notches, event.position())
        event.accept()

    def _is_split_at(self, point: QPointF) -> bool:
        if self.mode is not Mode.SPLIT:
            return False
        return self.scene.visible(QRectF(self.rect())).contains(point)

    def _drag_split(self, point: QPointF) -> None:
        visible = self.scene.visible(QRectF(self.rect()))
        self.set_split((point.x() - visible.left()) / max(1.0, visible.width()))

    def _update_cursor(self) -> None:
        can_pan = not self.scene.viewport.is_fitted
        shape = Qt.CursorShape.ArrowCursor
        if self._dragging == "split" or (
            not self._dragging and self._is_split_at(self._last_point)
        ):
            shape = Qt.CursorShape.SplitHCursor
        elif can_pan:
            is_held = self._dragging == "pan"
            shape = Qt.CursorShape.ClosedHandCursor if is_held else Qt.CursorShape.OpenHandCursor
        if shape != self.cursor().shape():
            self.setCursor(shape)

    # Keyboard

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Line, zoom, position and tiles without a mouse."""
        key = Qt.Key(event.key())
        modifiers = event.modifiers()
        is_moved = bool(modifiers & Qt.KeyboardModifier.ShiftModifier)
        if key in _ARROWS and (is_moved or _ARROWS[key][1]):  # left and right alone: frames
            is_wide = bool(modifiers & Qt.KeyboardModifier.ControlModifier)
            self._arrow(*_ARROWS[key], is_wide=is_wide)
        elif not self._letter(key):
            super().keyPressEvent(event)

    def _letter(self, key: Qt.Key) -> bool:
        """One key, one verb; False for keys that mean nothing here."""
        match key:
            case Qt.Key.Key_Plus | Qt.Key.Key_Equal:
                self.zoom_to(self.zoom * STEP)
            case Qt.Key.Key_Minus:
                self.zoom_to(self.zoom / STEP)
            case Qt.Key.Key_0:
                self.fit()
            case Qt.Key.Key_1:
                self.zoom_to(1.0)
            case Qt.Key.Key_T:
                self.tiles_toggled.emit()
            case Qt.Key.Key_Home | Qt.Key.Key_End if self.mode is Mode.SPLIT:
                self.set_split(0.0 if key == Qt.Key.Key_Home else 1.0)
            case _:
                return False
        return True

    def _arrow(self, across: int, down: int, *, is_wide: bool) -> None:
        if self.mode is Mode.SPLIT and across:
            self.set_split(self.split + across * (0.1 if is_wide else 0.01))
            return
        step = 200 if is_wide else 40
        self.scene.viewport.pan(QPointF(-across * step, -down * step))
        self.update()

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Show the ring only to those who came by keyboard."""
        by_keyboard = (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason)
        self._keyboard_focus = event.reason() in by_keyboard
        super().focusInEvent(event)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Hide the ring."""
        self._keyboard_focus = False
        super().focusOutEvent(event)
        self.update()
