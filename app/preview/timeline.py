"""The video as a strip below the image, with playback's controls, its volume and figures."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QSizePolicy, QSlider, QWidget

from app.bound import bind
from app.i18n import grouped, tr
from app.preview.film_clock import ROUNDED_S, FilmClock, clock
from app.preview.film_strip import Overview
from app.preview.timeline_strip import TimelineStrip
from app.theme.icons import icon
from app.ui_state import UiState
from app.widgets.layouts import MIDDLE, RIGHT, column, layout_of, row
from app.widgets.parts import bind_text, bind_tip, elided, icon_button, label, named
from app.widgets.plain import set_tip
from app.widgets.tab_stop import TabStop

_VOLUME = 72  # px of its slider
_EDGES = 4  # px of lines and margins around the title


class Timeline(QFrame):
    """The slider, playback's controls, and figures above it."""

    seconds_chosen = Signal(float)  # s of the source, well inside a frame
    span_chosen = Signal(int, int)  # as the strip's
    play_clicked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        named(self, "timeline", "card")
        self._film: FilmClock | None = None
        self._is_running = self._is_playing = False
        self._counts = True  # whether the frames have room next to the time
        self._note = ""
        self.volume = VolumeControl()
        tab = Qt.FocusPolicy.TabFocus  # a click leaves the keys to the image
        self._play = icon_button(
            "",
            "Play",
            "playButton",
            "icon",
            tip="Space: play or pause. J: play backwards. L: play forwards. Press again: faster. "
            "K: pause.",
            on=self.play_clicked,
            focus=tab,
        )
        self._loop = icon_button(
            "retry", "Loop", "loopButton", "icon", size=16, tip="Start over at the end", focus=tab
        )
        self._loop.setCheckable(True)
        self.strip = TimelineStrip()
        self.strip.step_chosen.connect(lambda _: self.seconds_chosen.emit(self.seconds_to_ask))
        self.strip.span_chosen.connect(self.span_chosen)
        self.strip.valueChanged.connect(self._show_position)
        bind_tip(
            self.strip,
            "Click or drag to go to a frame. Arrow keys: one frame, with Ctrl to the next cut. "
            "Page Up and Page Down: one second. I and O: set the start and end of the result.",
        )
        self._title, self._position = elided(kind="secondary"), label(name="positionLabel")
        self._trim = elided(kind="secondary", name="trimLabel", align=RIGHT | MIDDLE)
        hint = self._trim.sizePolicy()
        hint.setHorizontalPolicy(QSizePolicy.Policy.Maximum)  # the title gives way first
        self._trim.setSizePolicy(hint)
        figures = (self._title, 1), self._trim, self._position
        self._head = row(self._play, self._loop, self.volume, *figures, spacing=12)
        column(self._head, self.strip, spacing=6, margins=(12, 8, 12, 10), on=self)
        TabStop(self, (self._play, self._loop, self.volume.mute, self.volume.slider))
        bind(self, self._show, theme=True)

    def set_note(self, text: str) -> None:
        """Show a message of playback in place of the title; "" for none."""
        self._note = text
        self._title.setText(*self._title_texts())
        self._give_way()

    def set_film(self, film: FilmClock, *, has_sound: bool = True) -> None:
        """Another video."""
        self._film = film
        self.volume.setVisible(has_sound)
        self.strip.set_film(film)
        self._show()

    def show_overview(self, overview: Overview | None) -> None:
        """Show thumbnails, loudness and cuts of the video; None for none, or not yet."""
        self.strip.show_overview(overview)
        self._title.setText(*self._title_texts())

    def set_trim(self, start: float | None, stop: float | None) -> None:
        """Show the kept part of the video, s: frames from `start` on that come before `stop`."""
        if self._film is None:
            return
        edges = (start or 0.0, self._film.seconds if stop is None else stop)
        self.strip.set_span(*map(self._film.first_step_from, edges))
        self._show()

    def trim_of(self, first: int, stop: int) -> dict[str, str]:
        """Settings that keep steps from `first` to before `stop`; "" for the end of the video."""
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
        self._show_playing()
        self._show_position()

    def show_seconds(self, seconds: float) -> None:
        """Move the playhead to the frame of a time."""
        if self._film is not None:
            self.set_step(self._film.step_at(seconds))

    def set_finished(self, steps: int, *, is_running: bool) -> None:
        """Show the progress of the result."""
        self.strip.set_finished(steps)
        if is_running != self._is_running:
            self._is_running = is_running
            self._title.setText(*self._title_texts())

    def set_step(self, step: int) -> None:
        """Move the playhead without a signal."""
        if not self.strip.isSliderDown():
            self.strip.setValue(step)

    @property
    def seconds_to_ask(self) -> float:
        """A time well inside the frame at the playhead."""
        return self._film.seconds_to_ask(self.strip.value()) if self._film else 0.0

    @property
    def position_text(self) -> str:
        """Position of the playhead for a screen reader; "" for a still image."""
        if self._film is None or self._film.steps == 1:
            return ""
        step = self.strip.value()
        seconds = clock(self._film.seconds_of(step))
        if not self._film.counts_frames:
            return seconds
        count = grouped(self._film.steps)
        return tr(
            "frame {frame} of {count}, {time}", frame=grouped(step + 1), count=count, time=seconds
        )

    def _show_position(self) -> None:
        if self._film is None:
            return
        step = self.strip.value()
        text = clock(self._film.seconds_of(step))
        if self._film.counts_frames and self._counts:
            text = f"{grouped(step + 1)} / {grouped(self._film.steps)} · {text}"
        self._position.setText(text)
        if not self._is_playing:  # a screen reader would say each frame
            self.strip.setAccessibleName(
                ", ".join(filter(None, (tr("Timeline"), self.position_text)))
            )

    def _title_texts(self) -> tuple[str, ...]:
        if self._note:
            return (self._note,)
        if self._is_running:
            return tr("Timeline: green is finished"), tr("Timeline")
        if cuts := self.strip.cuts:
            return tr("Timeline · {count} shots", count=len(cuts) + 1), tr("Timeline")
        return (tr("Timeline"),)

    def _show_playing(self) -> None:
        self._play.setIcon(icon("pause" if self._is_playing else "play", size=16))
        self._play.setAccessibleName(tr("Pause playback") if self._is_playing else tr("Play"))

    def _show(self) -> None:
        self._show_playing()
        self._title.setText(*self._title_texts())
        trim = ""
        if self._film is not None and self.strip.is_trimmed:
            start, stop = (clock(self._film.seconds_of(step)) for step in self.strip.span)
            trim = tr("In {start} · Out {stop}", start=start, stop=stop)
        self._trim.setText(trim)
        self._trim.setVisible(bool(trim))
        self._show_position()
        self._give_way()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Find out what fits."""
        super().resizeEvent(event)
        self._give_way()

    def _give_way(self) -> None:
        """Let the title go where room is short, then the volume's slider, then the frames."""
        self.volume.slider.show()
        self._show_count(True)
        self._title.show()  # else it leaves a gap less, and comes back
        shortest = self._title.fontMetrics().horizontalAdvance(self._title_texts()[-1])
        self._title.setVisible(bool(self._note) or self._room >= shortest + _EDGES)
        self.volume.slider.setVisible(self._room >= 0)
        self._show_count(self._room >= 0)

    @property
    def _room(self) -> int:
        """Width that the row of figures leaves to the title, px."""
        parts = self._play, self._loop, self.volume, self._position, self._trim, self._title
        shown = [one for one in parts if not one.isHidden()]
        gaps = self._head.spacing() * (len(shown) - 1)
        margins = layout_of(self).contentsMargins()
        needed = sum(one.sizeHint().width() for one in shown if one is not self._title)
        return self.width() - needed - gaps - margins.left() - margins.right()

    def _show_count(self, is_shown: bool) -> None:
        if is_shown != self._counts:
            self._counts = is_shown
            self._show_position()


class VolumeControl(QWidget):
    """Emits what samples are multiplied by; the user's choice is kept between runs."""

    gain_changed = Signal(float)  # 0 to 1

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._kept: UiState | None = None
        tab = Qt.FocusPolicy.TabFocus
        self.mute = icon_button("", "Mute", "muteButton", "icon", focus=tab)
        self.mute.setCheckable(True)
        self.slider = named(QSlider(Qt.Orientation.Horizontal), "volumeSlider")
        self.slider.setFocusPolicy(tab)
        self.slider.setRange(0, 100)
        self.slider.setValue(100)
        self.slider.setFixedWidth(_VOLUME)
        bind_text(self.slider, self.slider.setAccessibleName, "Volume")
        bind_tip(self.slider, "Volume")
        row(self.mute, self.slider, spacing=4, on=self)
        self.mute.toggled.connect(self._changed)
        self.slider.valueChanged.connect(self._changed)
        bind(self, self._show, theme=True)

    @property
    def gain(self) -> float:
        """Factor of the samples: the square, as the ear hears steps of it as even."""
        return 0.0 if self.mute.isChecked() else (self.slider.value() / 100) ** 2

    def keep_in(self, state: UiState) -> None:
        """Begin as the last run ended, and remember what is chosen."""
        self.slider.setValue(state.volume)
        self.mute.setChecked(state.is_muted)
        self._kept = state

    def _changed(self) -> None:
        if self._kept is not None:
            self._kept.volume = self.slider.value()
            self._kept.is_muted = self.mute.isChecked()
        self._show()
        self.gain_changed.emit(self.gain)

    def _show(self) -> None:
        self.mute.setIcon(icon("muted" if self.gain == 0 else "sound", size=16))
        name = tr("Sound on") if self.mute.isChecked() else tr("Mute")
        set_tip(self.mute, name)
        self.mute.setAccessibleName(name)
