"""The slider over the steps of a video: what is finished, what is kept, where the playhead is."""

from __future__ import annotations

from fractions import Fraction

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import QAbstractSlider, QWidget

from app.preview.film_clock import FilmClock
from app.preview.film_strip import FilmStrip, Overview
from app.theme import tokens

HEIGHT, LOW_HEIGHT = 56, 24  # px, with room for thumbnails and loudness, and in a low window
_VEIL, _GREEN = 190, 90  # of 255, over thumbnails that are cut off, and over finished ones
_EDGE = 3  # px of the line below what is finished
_CUTS_APART = 4  # px, at least
_SHADOW, _LINE = QColor(0, 0, 0, 90), QColor(255, 255, 255, 210)  # of a cut, over any image
_MARGIN = 6  # px left and right of the strip, room for handles and playhead


class TimelineStrip(QAbstractSlider):
    """A slider over the steps of a video; emits what the user chose, never what was set."""

    step_chosen = Signal(int)
    span_chosen = Signal(int, int)  # first step that is kept, first one after

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("timelineStrip")
        self.setOrientation(Qt.Orientation.Horizontal)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self._film = FilmClock(steps=1, rate=Fraction(25), counts_frames=True)
        self._strip = FilmStrip()
        self._span = (0, 1)  # first step that is kept, first one after
        self._finished = 0  # steps from the beginning of the span
        self._edge = -1  # of the span, 0 or 1, whose handle is dragged
        self.can_trim = False
        self.setMouseTracking(True)

    def set_film(self, film: FilmClock) -> None:
        """Another video; nothing is finished, nothing cut off."""
        self._film = film
        self._strip.show(None)
        self._span, self._finished = (0, film.steps), 0
        self.setRange(0, film.steps - 1)
        self.setSingleStep(1 if film.counts_frames else 40)
        self.setPageStep(max(1, round(film.rate)))
        self.setValue(0)
        self.update()

    def show_overview(self, overview: Overview | None) -> None:
        """Show thumbnails, loudness and cuts; None for none, or not yet."""
        self._strip.show(overview)
        self.update()

    @property
    def cuts(self) -> list[int]:
        """Steps with which a shot begins after the first."""
        return [self._film.step_at(seconds) for seconds in self._strip.cuts]

    def set_span(self, start: int, stop: int) -> None:
        """Show the kept part of the video."""
        self._span = (max(0, start), min(max(start + 1, stop), self.maximum() + 1))
        self.update()

    @property
    def span(self) -> tuple[int, int]:
        """First step that is kept, first one after."""
        return self._span

    def is_kept(self, step: int) -> bool:
        """True when a step is part of the result."""
        return self._span[0] <= step < self._span[1]

    @property
    def is_trimmed(self) -> bool:
        """True when a part of the video is left out."""
        return self._span != (0, self.maximum() + 1)

    @property
    def finished(self) -> int:
        """Steps of the span that are done."""
        return self._finished

    def set_finished(self, steps: int) -> None:
        """Show the progress of the result, counted from the beginning of the span."""
        steps = min(max(steps, 0), self._span[1] - self._span[0])
        if steps != self._finished:
            self._finished = steps
            self.update()

    # Geometry

    def sizeHint(self) -> QSize:
        """A strip one can hit."""
        return QSize(400, HEIGHT)

    def minimumSizeHint(self) -> QSize:
        """Still a strip."""
        return QSize(120, LOW_HEIGHT)

    def _track(self) -> QRectF:
        return QRectF(self.rect()).adjusted(_MARGIN, 2, -_MARGIN, -2)

    def x_of(self, step: float) -> float:
        """Start of a step, px."""
        track = self._track()
        return track.left() + track.width() * step / (self.maximum() + 1)

    def step_at(self, x: float) -> int:
        """The step below a point."""
        track = self._track()
        step = int((x - track.left()) / max(1.0, track.width()) * (self.maximum() + 1))
        return min(max(step, 0), self.maximum())

    # Mouse and keyboard

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Take a handle, or go there."""
        if event.button() == Qt.MouseButton.LeftButton:
            self._edge = self._edge_at(event.position().x())
            if self._edge >= 0:
                return
            self.setSliderDown(True)
            self._choose(self.step_at(event.position().x()))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Scrub, or move an end."""
        x = event.position().x()
        if self._edge >= 0:
            self._drag_edge(self.step_at(x))
        elif self.isSliderDown():
            self._choose(self.step_at(x))
        else:
            is_edge = self._edge_at(x) >= 0
            shape = Qt.CursorShape.SizeHorCursor if is_edge else Qt.CursorShape.PointingHandCursor
            self.setCursor(shape)

    def mouseReleaseEvent(self, _event: QMouseEvent) -> None:
        """Let go."""
        if self._edge >= 0:
            self._edge = -1
            self.span_chosen.emit(*self._span)
        self.setSliderDown(False)

    def _edge_at(self, x: float) -> int:
        """The end whose handle is at a point: 0 or 1; -1 for none."""
        edges = [(abs(x - self.x_of(step)), index) for index, step in enumerate(self._span)]
        distance, index = min(edges)
        return index if self.can_trim and distance <= _MARGIN else -1

    def _drag_edge(self, step: int) -> None:
        first, stop = self._span
        if self._edge == 0:
            self.set_span(min(step, stop - 1), stop)
        else:
            self.set_span(first, max(step + 1, first + 1))

    def go(self, steps: int) -> None:
        """Go some steps forward or back, as the user's choice."""
        self._choose(self.value() + steps * self.singleStep())

    def go_to_cut(self, direction: int) -> bool:
        """Go to the next beginning of a shot, or with -1 to the one before; False without cuts."""
        cuts, now = self.cuts, self.value()
        if not cuts:
            return False
        if direction > 0:
            self._choose(next((cut for cut in cuts if cut > now), self.maximum()))
        else:
            self._choose(next((cut for cut in reversed(cuts) if cut < now), 0))
        return True

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Frames by arrows, with Ctrl cuts, seconds by page keys, ends by Home and End."""
        steps = {
            Qt.Key.Key_Left: -self.singleStep(),
            Qt.Key.Key_Right: self.singleStep(),
            Qt.Key.Key_PageUp: -self.pageStep(),
            Qt.Key.Key_PageDown: self.pageStep(),
        }
        key = Qt.Key(event.key())
        is_far = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
        direction = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(key, 0)
        if is_far and direction and self.go_to_cut(direction):
            return
        if key in steps:
            self._choose(self.value() + steps[key])
        elif key in (Qt.Key.Key_Home, Qt.Key.Key_End):
            self._choose(self._span[0] if key == Qt.Key.Key_Home else self._span[1] - 1)
        else:
            super().keyPressEvent(event)

    def _choose(self, step: int) -> None:
        step = min(max(step, 0), self.maximum())
        if step != self.value() or self.isSliderDown():
            self.setValue(step)
            self.step_chosen.emit(step)

    # Painting

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Track, finished part, handles, playhead, focus ring."""
        theme = tokens.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        track = self._track()
        kept = QRectF(track)
        kept.setLeft(self.x_of(self._span[0]))
        kept.setRight(self.x_of(self._span[1]))
        done = QRectF(kept)
        done.setRight(self.x_of(self._span[0] + self._finished))
        if self._strip.is_empty:
            empty = tokens.mixed(theme.surface_3, theme.surface_2, 0.35)
            filled = tokens.mixed(theme.accent, theme.surface_2, 0.45 if theme.is_dark else 0.55)
            for rect, colour in ((track, empty), (kept, theme.surface_3), (done, filled)):
                if rect.width() > 0:
                    painter.setBrush(QColor(colour))
                    painter.drawRoundedRect(rect, 4, 4)
        else:
            self._paint_strip(painter, track, kept, done)
        if self.is_trimmed or self.can_trim:
            self._paint_handles(painter, kept, QColor(theme.text_1))
        self._paint_playhead(painter, track, QColor(theme.text_1))
        if self.hasFocus():
            painter.setPen(QPen(QColor(theme.accent), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 6, 6)

    def _paint_strip(self, painter: QPainter, track: QRectF, kept: QRectF, done: QRectF) -> None:
        """Thumbnails and loudness; what is cut off lies below a veil, what is finished is green."""
        theme = tokens.current()
        rounded = QPainterPath()
        rounded.addRoundedRect(track, 4, 4)
        painter.save()
        painter.setClipPath(rounded)
        pixmap = self._strip.pixmap(track.size(), self.devicePixelRatioF())
        painter.drawPixmap(track.topLeft(), pixmap)
        veil, green = QColor(theme.background), QColor(theme.accent)
        veil.setAlpha(_VEIL)
        green.setAlpha(_GREEN)
        for left, right in ((track.left(), kept.left()), (kept.right(), track.right())):
            painter.fillRect(QRectF(left, track.top(), right - left, track.height()), veil)
        if done.width() > 0:
            painter.fillRect(done, green)
            done.setTop(done.bottom() - _EDGE)
            painter.fillRect(done, QColor(theme.accent))
        painter.restore()
        self._paint_cuts(painter, track)

    def _paint_cuts(self, painter: QPainter, track: QRectF) -> None:
        """A light line with a shadow for each cut, over whatever is below."""
        last = track.left()
        for cut in self.cuts:
            x = round(self.x_of(cut))
            if x - last >= _CUTS_APART:
                last = x
                painter.fillRect(QRectF(x - 1, track.top(), 3, track.height()), _SHADOW)
                painter.fillRect(QRectF(x, track.top(), 1, track.height()), _LINE)

    @staticmethod
    def _paint_handles(painter: QPainter, kept: QRectF, colour: QColor) -> None:
        painter.setBrush(colour)
        for x in (kept.left() - 5, kept.right()):
            painter.drawRoundedRect(QRectF(x, kept.top(), 5, kept.height()), 2, 2)

    def _paint_playhead(self, painter: QPainter, track: QRectF, colour: QColor) -> None:
        x = round(self.x_of(self.value() + 0.5))
        if not self._strip.is_empty:
            painter.setBrush(QColor(tokens.current().background))
            painter.drawRect(QRectF(x - 2, track.top() - 2, 4, track.height() + 4))
        painter.setBrush(colour)
        painter.drawRect(QRectF(x - 1, track.top() - 2, 2, track.height() + 4))
        painter.drawEllipse(QPointF(x, track.top()), 4, 4)
