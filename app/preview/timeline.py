"""The film as a timeline: position, finished part and cut-off ends."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import (
    QAbstractSlider,
    QFrame,
    QHBoxLayout,
    QLabel,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.i18n import grouped, tr
from app.preview.film_clock import ROUNDED_S, FilmClock, clock
from app.preview.volume import VolumeControl
from app.theme import tokens
from app.theme.icons import icon
from app.widgets.controls import ElidedLabel

_MARGIN = 6  # px left and right of the strip, room for handles and playhead


class TimelineStrip(QAbstractSlider):
    """A slider over the steps of a film; emits what the user chose, never what was set."""

    step_chosen = Signal(int)
    span_chosen = Signal(int, int)  # first step that is kept, first one after

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("timelineStrip")
        self.setOrientation(Qt.Orientation.Horizontal)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self._steps_a_second = 25
        self._span = (0, 1)  # first step that is kept, first one after
        self._finished = 0  # steps from the beginning of the span
        self._edge = -1  # of the span, 0 or 1, whose handle is dragged
        self.can_trim = False
        self.setMouseTracking(True)

    def set_film(self, film: FilmClock) -> None:
        """Another film; nothing is finished, nothing cut off."""
        self._steps_a_second = max(1, round(film.rate))
        self._span, self._finished = (0, film.steps), 0
        self.setRange(0, film.steps - 1)
        self.setSingleStep(1 if film.counts_frames else 40)
        self.setPageStep(self._steps_a_second)
        self.setValue(0)
        self.update()

    def set_span(self, start: int, stop: int) -> None:
        """What of the film is kept."""
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
        """True when a part of the film is left out."""
        return self._span != (0, self.maximum() + 1)

    @property
    def finished(self) -> int:
        """Steps of the span that are done."""
        return self._finished

    def set_finished(self, steps: int) -> None:
        """How far the result is, counted from the beginning of the span."""
        steps = min(max(steps, 0), self._span[1] - self._span[0])
        if steps != self._finished:
            self._finished = steps
            self.update()

    # Geometry

    def sizeHint(self) -> QSize:
        """A strip one can hit."""
        return QSize(400, 36)

    def minimumSizeHint(self) -> QSize:
        """Still a strip."""
        return QSize(120, 28)

    def _track(self) -> QRectF:
        return QRectF(self.rect()).adjusted(_MARGIN, 2, -_MARGIN, -2)

    def x_of(self, step: float) -> float:
        """Where a step begins, in px."""
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

    def move(self, steps: int) -> None:
        """Go some steps forward or back, as the user's choice."""
        self._choose(self.value() + steps * self.singleStep())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Frames by arrows, seconds by page keys, ends by Home and End."""
        steps = {
            Qt.Key.Key_Left: -self.singleStep(),
            Qt.Key.Key_Right: self.singleStep(),
            Qt.Key.Key_PageUp: -self.pageStep(),
            Qt.Key.Key_PageDown: self.pageStep(),
        }
        key = Qt.Key(event.key())
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
        empty = tokens.mixed(theme.surface_3, theme.surface_2, 0.35)
        filled = tokens.mixed(theme.accent, theme.surface_2, 0.45 if theme.is_dark else 0.55)
        for rect, colour in ((track, empty), (kept, theme.surface_3), (done, filled)):
            if rect.width() > 0:
                painter.setBrush(QColor(colour))
                painter.drawRoundedRect(rect, 4, 4)
        if self.is_trimmed or self.can_trim:
            self._paint_handles(painter, kept, QColor(theme.text_1))
        self._paint_playhead(painter, track, QColor(theme.text_1))
        if self.hasFocus():
            painter.setPen(QPen(QColor(theme.accent), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 6, 6)

    @staticmethod
    def _paint_handles(painter: QPainter, kept: QRectF, colour: QColor) -> None:
        painter.setBrush(colour)
        for x in (kept.left() - 5, kept.right()):
            painter.drawRoundedRect(QRectF(x, kept.top(), 5, kept.height()), 2, 2)

    def _paint_playhead(self, painter: QPainter, track: QRectF, colour: QColor) -> None:
        x = round(self.x_of(self.value() + 0.5))
        painter.setBrush(colour)
        painter.drawRect(QRectF(x - 1, track.top() - 2, 2, track.height() + 4))
        painter.drawEllipse(QPointF(x, track.top()), 4, 4)


class Timeline(QFrame):
    """The slider, playback's controls, and figures above it."""

    seconds_chosen = Signal(float)  # s of the source, well inside a frame
    span_chosen = Signal(int, int)  # as the strip's
    play_clicked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("timeline")
        self.setProperty("kind", "card")
        self._film: FilmClock | None = None
        self._is_running = False
        self._note = ""
        self.volume = VolumeControl()
        self._play, self._loop = QToolButton(), QToolButton()
        self._play.setObjectName("playButton")
        self._loop.setObjectName("loopButton")
        self._loop.setCheckable(True)
        self._is_playing = False
        self._play.clicked.connect(self.play_clicked)
        self.strip = TimelineStrip()
        self.strip.step_chosen.connect(self._chosen)
        self.strip.span_chosen.connect(self.span_chosen)
        self.strip.valueChanged.connect(self._show_position)
        self._title, self._trim, self._position = ElidedLabel(), ElidedLabel(), QLabel()
        for label in (self._title, self._trim):
            label.setProperty("kind", "secondary")
        self._position.setObjectName("positionLabel")
        self._trim.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        head = QHBoxLayout()
        head.setSpacing(12)
        for button in (self._play, self._loop):
            button.setFocusPolicy(Qt.FocusPolicy.TabFocus)  # a click leaves the keys to the picture
            button.setProperty("kind", "icon")
            head.addWidget(button)
        head.addWidget(self.volume)
        head.addWidget(self._title, 1)
        head.addWidget(self._trim, 1)
        head.addWidget(self._position)
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 8, 12, 10)
        column.setSpacing(6)
        column.addLayout(head)
        column.addWidget(self.strip)
        self.retranslate()

    def set_note(self, text: str) -> None:
        """What playback has to say, in place of the title; "" for nothing."""
        self._note = text
        self._title.setText(self._title_text())

    def set_film(self, film: FilmClock) -> None:
        """Another film."""
        self._film = film
        self.strip.set_film(film)
        self.retranslate()

    def set_trim(self, start: float | None, stop: float | None) -> None:
        """What of the film is kept, in seconds; frames from `start` on that come before `stop`."""
        if self._film is None:
            return
        edges = (start or 0.0, self._film.seconds if stop is None else stop)
        self.strip.set_span(*map(self._film.first_step_from, edges))
        self.retranslate()

    def trim_of(self, first: int, stop: int) -> dict[str, str]:
        """The settings that keep steps from `first` to before `stop`; "" for the film's own end."""
        if self._film is None:
            return {}
        edges = [max(0.0, self._film.seconds_of(step) - float(ROUNDED_S)) for step in (first, stop)]
        start, end = (f"{edge:.4f}" for edge in edges)
        return {"start": start if first > 0 else "", "stop": end if stop < self._film.steps else ""}

    def set_can_trim(self, can_trim: bool) -> None:
        """Whether the ends can be moved: not any more when the job has begun."""
        self.strip.can_trim = can_trim
        self.strip.update()

    @property
    def is_looped(self) -> bool:
        """Whether playback begins again at its end."""
        return self._loop.isChecked()

    @property
    def is_running(self) -> bool:
        """Whether more of the result is being made."""
        return self._is_running

    def show_playing(self, is_playing: bool) -> None:
        """Whether the button plays or halts."""
        self._is_playing = is_playing
        self._label_buttons()

    def show_seconds(self, seconds: float) -> None:
        """Move the playhead to the frame of a time."""
        if self._film is not None:
            self.set_step(self._film.step_at(seconds))

    def set_finished(self, steps: int, *, is_running: bool) -> None:
        """How far the result is."""
        self.strip.set_finished(steps)
        if is_running != self._is_running:
            self._is_running = is_running
            self._title.setText(self._title_text())

    def set_step(self, step: int) -> None:
        """Move the playhead without a signal."""
        if not self.strip.isSliderDown():
            self.strip.setValue(step)

    @property
    def seconds_to_ask(self) -> float:
        """A time well inside the frame at the playhead."""
        return self._film.seconds_to_ask(self.strip.value()) if self._film else 0.0

    def _chosen(self, _step: int) -> None:
        self.seconds_chosen.emit(self.seconds_to_ask)

    def _show_position(self) -> None:
        if self._film is None:
            return
        step = self.strip.value()
        text = clock(self._film.seconds_of(step))
        if self._film.counts_frames:
            text = f"{grouped(step + 1)} / {grouped(self._film.steps)} · {text}"
        self._position.setText(text)

    def _title_text(self) -> str:
        if self._note:
            return self._note
        if self._is_running:
            return tr("Timeline: green is finished")
        return tr("Timeline")

    def changeEvent(self, event: QEvent) -> None:
        """Another language."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.LanguageChange, QEvent.Type.StyleChange):
            self.retranslate()

    def _label_buttons(self) -> None:
        self._play.setIcon(icon("pause" if self._is_playing else "play", size=16))
        self._play.setToolTip(
            tr("Space plays and halts; J plays back, L forward, again: faster; K halts")
        )
        self._play.setAccessibleName(tr("Halt playback") if self._is_playing else tr("Play"))
        self._loop.setIcon(icon("retry", size=16))
        self._loop.setToolTip(tr("Begin again at the end"))
        self._loop.setAccessibleName(tr("Loop"))

    def retranslate(self) -> None:
        """All texts in the current language."""
        self._label_buttons()
        self._title.setText(self._title_text())
        self.strip.setAccessibleName(tr("Timeline"))
        self.strip.setToolTip(
            tr(
                "Click or drag to look at a frame. Arrow keys: a frame; page keys: a second. "
                "I and O set where the result begins and ends."
            )
        )
        trim = ""
        if self._film is not None and self.strip.is_trimmed:
            start, stop = (clock(self._film.seconds_of(step)) for step in self.strip.span)
            trim = tr("In {start} · Out {stop}", start=start, stop=stop)
        self._trim.setText(trim)
        self._trim.setVisible(bool(trim))
        self._show_position()
