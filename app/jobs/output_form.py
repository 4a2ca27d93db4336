"""Choices about the result: its size, its format, and how much SeedVR2 redraws."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QWidget

from app.bound import bind
from app.engine_messages import choice_hint, setting_text, setting_title
from app.i18n import mark, tr
from app.settings.editors import ChoiceEditor, make_editor, title_of, value_text
from app.widgets.controls import SegmentedControl, WheellessSlider
from app.widgets.layouts import STRETCH, column, grid, row
from app.widgets.parts import bind_text, bind_tip, label, named
from app.widgets.reveal import bring_into_view
from engine.protocol.plan import Plan
from engine.settings import schema
from engine.settings.schema import JobSettings, with_values

_SIZE_FIELDS = ("scale", "height", "width")
_PRESETS = {
    "x2": {"scale": 2, "height": 0, "width": 0},
    "x4": {"scale": 4, "height": 0, "width": 0},
    "1080p": {"scale": 2, "height": 1080, "width": 0},
    "4K": {"scale": 4, "height": 2160, "width": 0},
}
_OTHER = "other"
_STRENGTH = mark(
    "Lower values keep more of the source. Redrawn detail may not exist in the source."
)
_STEP = 5  # percent of strength, by the arrow keys


def preset_of(settings: JobSettings) -> str:
    """The name of the preset that gives the same size, or "other"."""
    for name, values in _PRESETS.items():
        if all(getattr(settings, field) == value for field, value in values.items()):
            return name
    return _OTHER


class TargetForm(QWidget):
    """A row of presets; the last one opens fields for factor, height and width."""

    changed = Signal(dict)  # name -> value

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._settings = JobSettings()
        self._row = named(SegmentedControl([*_PRESETS, _OTHER]), "target")
        self._fields = QWidget()
        self._editors = {name: make_editor(name) for name in _SIZE_FIELDS}
        for editor in self._editors.values():
            editor.changed.connect(self._edit)
        titles = [title_of(name, kind="secondary") for name in _SIZE_FIELDS]
        grid([titles, [*self._editors.values()]], spacing=4, wide=range(3), on=self._fields)
        column(self._row, self._fields, spacing=8, on=self)
        self._fields.setVisible(False)
        self._row.chosen.connect(self._choose)
        bind(self, self._name_sizes)

    @property
    def first_control(self) -> QWidget:
        """The size that is chosen, else the first one."""
        return self._row.button(self._row.current or _OTHER)

    def show_settings(self, settings: JobSettings) -> None:
        """Show the target of a job."""
        self._settings = settings
        preset = preset_of(settings)
        if self._row.current != _OTHER or preset == _OTHER:
            self._row.set_current(preset)
        self._fields.setVisible(self._row.current == _OTHER)
        for name, editor in self._editors.items():
            editor.set_value(getattr(settings, name))

    def show_preset(self, settings: JobSettings) -> None:
        """Show the target of another job: an open "Custom" closes where a preset gives the same."""
        self._row.set_current(preset_of(settings))
        self.show_settings(settings)

    def _name_sizes(self) -> None:
        self._row.set_labels({"x2": "×2", "x4": "×4", _OTHER: tr("Custom")})
        self._row.set_tips(
            {
                "x2": tr("Twice as wide and high"),
                "x4": tr("Four times as wide and high"),
                "1080p": tr("1080 pixels high, width to match"),
                "4K": tr("2160 pixels high, width to match"),
                _OTHER: tr("Custom size"),
            }
        )
        self._row.setAccessibleName(tr("Output"))

    def _choose(self, preset: str) -> None:
        self._fields.setVisible(preset == _OTHER)
        if preset == _OTHER:
            bring_into_view(self)
        else:
            self._apply(_PRESETS[preset])

    def _edit(self, name: str, value: object) -> None:
        """Take a scale, which replaces height and width, or one of these."""
        replaced = {"scale": ("height", "width"), "height": () if value else ("width",)}
        self._apply({name: value, **dict.fromkeys(replaced.get(name, ()), 0)})
        self.show_settings(self._settings)

    def _apply(self, values: Mapping[str, object]) -> None:
        self._settings = with_values(self._settings, values)
        self.changed.emit(values)


class FormatForm(QWidget):
    """Edits the format of the file that comes out."""

    changed = Signal(dict)  # name -> value

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._editors = {name: ChoiceEditor(name) for name in ("container", "codec")}
        self._container = "auto"
        self._about = label(kind="secondary", name="formatHint", wraps=True)
        self._quality_text, self._bit_rate = label(), 0.0  # Mbit/s; 0 for the quality
        self._quality = named(WheellessSlider(Qt.Orientation.Horizontal), "setting-crf")
        bind_text(self._quality, self._quality.setAccessibleName, lambda: setting_title("crf"))
        bind_tip(self._quality, lambda: setting_text("crf"))
        about = schema.about("crf")
        self._worst = int(about.high or 51)
        self._quality.setRange(0, self._worst)  # to the right is better: worst - crf
        titles = [title_of(name, one.control) for name, one in self._editors.items()]
        column(
            grid([titles, [*self._editors.values()]], spacing=(8, 6), wide=range(2)),
            self._about,
            8,
            row(title_of("crf"), STRETCH, self._quality_text),
            self._quality,
            spacing=6,
            on=self,
        )
        for editor in self._editors.values():
            editor.changed.connect(lambda name, value: self.changed.emit({name: value}))
        self._quality.valueChanged.connect(self._show_quality)
        self._quality.valueChanged.connect(
            lambda value: self.changed.emit({"crf": self._worst - value})
        )
        bind(self, self._show_quality)
        bind(self, self._show_about)

    def show_settings(self, settings: schema.JobSettings) -> None:
        """Show the values of a job."""
        self._container = settings.container
        self._show_about()
        for name, editor in self._editors.items():
            editor.set_value(getattr(settings, name))
        self._quality.blockSignals(True)
        self._quality.setValue(self._worst - settings.crf)
        self._quality.blockSignals(False)
        self._bit_rate = settings.bit_rate
        self._quality.setEnabled(not self._bit_rate)
        self._show_quality()

    @property
    def summary(self) -> str:
        """Container, codec and quality in one line: "MP4 · H.264 · High"; of images the format."""
        container, codec = self._editors.values()
        if container.meant in schema.IMAGE_FORMATS:
            return container.meaning
        quality = quality_of(self._worst - self._quality.value())
        rate = value_text("bit_rate", self._bit_rate)
        words = container.meaning, codec.meaning, rate if self._bit_rate else quality
        return " · ".join(dict.fromkeys(words))  # both may be automatic while there is no plan

    @property
    def controls(self) -> list[QWidget]:
        """Controls from first to last."""
        return [*(editor.control for editor in self._editors.values()), self._quality]

    def show_plan(self, plan: Plan | None) -> None:
        """Value of "automatic" in a plan; None while there is none."""
        self._editors["container"].show_automatic(plan.format if plan is not None else "")
        self._editors["codec"].show_automatic(video_codec(plan) if plan is not None else "")

    def _show_about(self) -> None:
        """One line about the chosen format."""
        self._about.setText(choice_hint("container", self._container))
        self._about.setVisible(bool(self._about.text()))

    def _show_quality(self) -> None:
        crf = self._worst - self._quality.value()
        rate = value_text("bit_rate", self._bit_rate)
        constant = tr("Constant · {rate}", rate=rate)
        self._quality_text.setText(constant if self._bit_rate else f"{quality_of(crf)} · {crf}")


class StrengthForm(QWidget):
    """Edits the strength; only shown where the model looks at it."""

    changed = Signal(dict)  # name -> value

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        about = schema.about("strength")
        self._slider = named(WheellessSlider(Qt.Orientation.Horizontal), "setting-strength")
        self._slider.setRange(int(about.low or 0), int(about.high or 100))
        self._slider.setSingleStep(_STEP)
        self._slider.setPageStep(4 * _STEP)
        bind_text(self._slider, self._slider.setAccessibleName, lambda: setting_title("strength"))
        bind_text(self._slider, self._slider.setAccessibleDescription, _STRENGTH)
        title, self._explanation = title_of("strength", self._slider), label()
        for part in (title, self._explanation, self._slider):
            bind_tip(part, _STRENGTH)
        column(row(title, STRETCH, self._explanation), self._slider, spacing=6, on=self)
        self._slider.valueChanged.connect(self._show_strength)
        self._slider.valueChanged.connect(lambda value: self.changed.emit({"strength": value}))
        bind(self, self._show_strength)

    def show_settings(self, settings: schema.JobSettings) -> None:
        """Show the values of a job without saying that they changed."""
        self._slider.blockSignals(True)
        self._slider.setValue(settings.strength)
        self._slider.blockSignals(False)
        self._show_strength()

    def _show_strength(self) -> None:
        percent = self._slider.value()
        self._explanation.setText(f"{strength_of(percent)} · {percent} %")


def strength_of(percent: int) -> str:
    """Effect of a strength, as text."""
    if percent == 0:
        return tr("Only resized")
    if percent <= 40:
        return tr("Close to the source")
    if percent <= 75:
        return tr("Half and half")
    if percent < 100:
        return tr("Mostly redrawn")
    return tr("Fully redrawn")


def video_codec(plan: Plan) -> str:
    """Codec of a plan as a value of the setting `codec`; "" where the result is images."""
    codec = plan.picture.codec
    return codec if codec in schema.CODECS else ""


def quality_of(crf: int) -> str:
    """A CRF as text."""
    if crf == 0:
        return tr("Nearly lossless")
    if crf <= 14:
        return tr("Very high")
    if crf <= 18:
        return tr("High")
    if crf <= 23:
        return tr("Good")
    if crf <= 30:
        return tr("Small file")
    return tr("Very small file")
