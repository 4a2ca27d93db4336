"""The bar at the top: name, state of the GPU, gauges, language, theme."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QColor, QIcon, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QFrame, QToolButton, QWidget

from app.actions import Actions
from app.bound import bind
from app.gauges import Gauges, about_gpu
from app.i18n import LANGUAGES, mark, tr
from app.state.telemetry_model import TelemetryModel
from app.theme import tokens
from app.theme.icons import icon
from app.widgets.controls import SegmentedControl
from app.widgets.layouts import Stretch, layout_of, row
from app.widgets.parts import action_button, bind_text, elided, named, set_kind
from app.widgets.plain import Label, set_tip
from app.widgets.tab_stop import TabStop
from engine.core import paths

_WIDE, _NARROW, _TIGHT = 1480, 1400, 1180  # px


class ToolBar(QWidget):
    """Always visible; emits requests for another language or theme."""

    language_requested = Signal(str)
    theme_requested = Signal(str)

    def __init__(self, model: TelemetryModel, actions: Actions) -> None:
        super().__init__()
        self.setObjectName("toolBar")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setFixedHeight(tokens.TOP_HEIGHT)
        self._model = model
        self._fetched, self._is_idle, self._is_tight = "", False, False
        sign = Label()
        sign.setPixmap(QIcon(str(paths.resource("icons", "upreel-128.png"))).pixmap(QSize(26, 26)))
        self._name, self._chip = named(Label("Upreel"), kind="title"), GpuChip()
        self._switch = named(SegmentedControl(list(LANGUAGES), in_bar=True), "languageSwitch")
        self._switch.set_labels(LANGUAGES)
        bind_text(self._switch, self._switch.setAccessibleName, mark("Language"))
        style = Qt.ToolButtonStyle
        self._models = action_button(actions["models"], "", style.ToolButtonTextBesideIcon)
        bench, self._machines, settings = (
            action_button(actions[name], "icon", style.ToolButtonIconOnly)
            for name in ("bench", "machines", "settings")
        )
        self._gauges = Gauges(model)
        self._theme = named(QToolButton(), "themeSwitch", "icon")
        row(
            sign,
            self._name,
            6,
            self._chip,
            Stretch(1),
            self._gauges,
            self._models,
            bench,
            self._machines,
            settings,
            self._switch,
            self._theme,
            spacing=10,
            margins=(16, 0),
            on=self,
        )
        buttons = self._models, bench, self._machines, settings, *self._switch.buttons
        TabStop(self, (self._gauges, *buttons, self._theme))
        self._switch.chosen.connect(self.language_requested)
        self._theme.clicked.connect(
            lambda: self.theme_requested.emit("light" if tokens.current().is_dark else "dark")
        )
        model.changed.connect(self._show_card)
        bind(self, self._show_texts, theme=True)

    @property
    def last_control(self) -> QWidget:
        """The control after which Tab leaves the bar."""
        return self._theme

    def show_language(self, language: str) -> None:
        """Show the language in use."""
        self._switch.set_current(language)

    def show_gpu_idle(self, is_idle: bool) -> None:
        """Show that there is a GPU that this program cannot compute on."""
        if is_idle != self._is_idle:
            self._is_idle = is_idle
            self._show_card()

    def show_models(self, progress: str) -> None:
        """Show the progress of downloads in a few letters; "" while there are none."""
        self._fetched = progress
        text = tr("Models")
        self._models.setText(f"{text} · {progress}" if progress else text)

    def _show_texts(self) -> None:
        self.show_models(self._fetched)
        is_dark = tokens.current().is_dark
        self._theme.setIcon(icon("sun" if is_dark else "moon"))
        other = tr("Light theme") if is_dark else tr("Dark theme")
        set_tip(self._theme, other)
        self._theme.setAccessibleName(other)
        self._show_card()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Drop texts before figures in a narrow window."""
        super().resizeEvent(event)
        is_icon, style = self.width() < _NARROW and not self._fetched, Qt.ToolButtonStyle
        self._models.setToolButtonStyle(
            style.ToolButtonIconOnly if is_icon else style.ToolButtonTextBesideIcon
        )
        set_kind(self._models, "icon" if is_icon else "")
        self._fold(is_tight=self.width() < _TIGHT)

    def minimumSizeHint(self) -> QSize:
        """Any width of the window will do: `resizeEvent` gives way."""
        return QSize(0, tokens.TOP_HEIGHT)

    def _fold(self, *, is_tight: bool) -> None:
        self._is_tight = is_tight
        layout_of(self).setSpacing(6 if is_tight else 10)
        self._gauges.set_narrow(self.width() < _NARROW, is_tight)
        self._name.setVisible(not is_tight)
        self._chip.set_tight(is_tight)
        self._machines.setVisible(self.width() >= _WIDE)  # the settings lead there, too
        self._fold_further()

    def _fold_further(self) -> None:
        """A GPU with a long name, or large figures, may need more than the width suggests."""
        for part in (self._gauges, self._chip):
            layout_of(part).activate()  # what was shown or hidden counts now
        if not self._is_tight and layout_of(self).minimumSize().width() > self.width():
            self._fold(is_tight=True)

    def _show_card(self) -> None:
        reading = self._model.reading
        if reading is None:
            self._chip.show_state("info", "", tr("Checking your hardware …"))
        elif reading.gpu is None:
            self._chip.show_state(
                "info",
                tr("The built-in model works without a GPU, only slower."),
                tr("No NVIDIA GPU: runs on the CPU"),
                tr("No NVIDIA GPU"),
            )
        else:
            gpu = reading.gpu
            name = gpu.name.removeprefix("NVIDIA ").removeprefix("GeForce ")
            size = tr("{size} GB", size=round(gpu.total_mb / 1024))
            parts = [[name, size], [name]]
            doubt = tr("simulated") if gpu.is_pretended else tr("not used")
            is_usable = not (self._is_idle or gpu.is_pretended)
            if not is_usable:
                parts = [[name, size, doubt], [name, doubt], [name]]
            state = "good" if is_usable else "info"
            self._chip.show_state(state, about_gpu(gpu), *map(" · ".join, parts))
        self._fold_further()


_LEAST, _LEAST_TIGHT = 140, 60  # px of the chip's text


class GpuChip(QFrame):
    """A dot and a short text; the dot's colour only repeats the text."""

    def __init__(self) -> None:
        super().__init__()
        named(self, "gpuChip", "chip")
        self.setFixedHeight(30)
        self._dot, self._text, self._least = _Dot(), elided(name="gpuText"), _LEAST
        row(self._dot, (self._text, 1), spacing=8, margins=(12, 0, 14, 0), on=self)

    def set_tight(self, is_tight: bool) -> None:
        """Little room: the text may end early."""
        self._least = _LEAST_TIGHT if is_tight else _LEAST
        self._text.setMinimumWidth(min(self._least, self._text.sizeHint().width()))

    def show_state(self, severity: str, tip: str, text: str, *shorter: str) -> None:
        """Show which GPU there is, in as many words as have room."""
        self._dot.show_severity(severity)
        if text != self._text.whole:
            self._text.setText(text, *shorter)
            self._text.ensurePolished()
            self.setMaximumWidth(self._text.sizeHint().width() + 46)
            self._text.setMinimumWidth(min(self._least, self._text.sizeHint().width()))
            self.updateGeometry()
        set_tip(self, tip)

    def sizeHint(self) -> QSize:
        """Room for its text."""
        return QSize(self._text.sizeHint().width() + 46, 30)


class _Dot(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self.setFixedSize(8, 8)
        self._severity = "info"

    def show_severity(self, severity: str) -> None:
        self._severity = severity
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        theme = tokens.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        colour = theme.accent if self._severity == "good" else theme.information
        painter.setBrush(QColor(colour))
        painter.drawEllipse(self.rect())
