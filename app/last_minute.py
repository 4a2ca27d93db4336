"""Panel below the gauges: their last minute, and the seconds of the video's stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPoint, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QFrame, QWidget

from app import labels
from app.i18n import mark, tr
from app.state.telemetry_model import HISTORY_S, Sample, TelemetryModel
from app.theme import tokens
from app.widgets.controls import ChoiceBox
from app.widgets.layouts import LEFT, MIDDLE, RIGHT, STRETCH, column, grid, row
from app.widgets.parts import label, named
from app.widgets.plain import Label, Legend

_WIDTH, _HEIGHT, _BELOW = 380, 34, 4  # px of a curve, and between gauges and what opens
_LATENTS = "decode"  # the stage in events that `StagePlan` calls "latents"
_AROUND = ("latents", "verify")  # planned stages outside of "run"


@dataclass(frozen=True, slots=True)
class Quantity:
    """Data of a curve: all figures in one unit."""

    name: str  # its title, to be translated
    # Our part and others' of a sample; None where it has none.
    value: Callable[[Sample], tuple[float, float] | None]
    text: Callable[[float, float], str]  # the present figure, of both parts and of the whole
    # The height of the curve; None for the highest of the minute.
    whole: Callable[[Sample], float] | None = None
    is_shared: bool = False  # others have a part of their own


def _video_memory(sample: Sample) -> tuple[float, float] | None:
    gpu = sample.reading.gpu
    return (gpu.ours_mb, gpu.others_mb) if gpu is not None else None


def _of_whole(value: float, whole: float) -> str:
    return f"{labels.gigabytes(value)} / {labels.gigabytes(whole)} GB"


def _percent(value: float, _whole: float) -> str:
    return f"{value:.0f} %"


def _fps(value: float, highest: float) -> str:
    if not highest:
        return "–"
    now, most = (tr("{value} fps", value=f"{one:.1f}") for one in (value, highest))
    return tr("{now}, peak {most}", now=now, most=most)


def _hundred(_sample: Sample) -> float:
    return 100.0


VIDEO_MEMORY = Quantity(
    "VRAM",
    _video_memory,
    _of_whole,
    lambda sample: sample.reading.gpu.total_mb if sample.reading.gpu is not None else 0.0,
    is_shared=True,
)
QUANTITIES = (
    VIDEO_MEMORY,
    Quantity(
        mark("GPU"),
        lambda sample: (0.0, sample.reading.gpu.load_percent) if sample.reading.gpu else None,
        _percent,
        _hundred,
    ),
    Quantity(
        mark("RAM"),
        lambda sample: (sample.reading.ram_ours_mb, sample.reading.ram_others_mb),
        _of_whole,
        lambda sample: sample.reading.ram_total_mb,
        is_shared=True,
    ),
    Quantity(mark("CPU"), lambda sample: (0.0, sample.reading.cpu_percent), _percent, _hundred),
    Quantity(mark("Speed"), lambda sample: (sample.frames_per_second, 0.0), _fps),
)


class LastMinute(QFrame):
    """A popup; it exists only while it is open, and is painted once for each reading."""

    def __init__(self, model: TelemetryModel, opener: QWidget) -> None:
        super().__init__(opener, Qt.WindowType.Popup)
        named(self, "lastMinute", "sheet")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setAttribute(Qt.WidgetAttribute.WA_NoMouseReplay)  # a press on the gauges closes
        self.setAccessibleName(tr("Last minute"))
        self._model, self._opener = model, opener
        self._gpus = GpuChoice()
        self._gpus.chosen.connect(model.show_gpu)
        self._curves = {quantity: CurveRow(quantity) for quantity in QUANTITIES}
        self._stages = TimesTable()
        self._waits = label(kind="warning", name="gpuWaits", wraps=True)
        title = label("Last minute", "title")
        curves = column(title, self._gpus, *self._curves.values(), spacing=10)
        # Side by side it is as low as the smallest window.
        work = column(self._stages, self._waits, STRETCH, spacing=10)
        row(curves, work, spacing=28, margins=(16, 12, 16, 14), on=self)
        model.read.connect(self._show)
        self._show()

    def _place(self) -> None:
        """Below its opener, inside of the screen."""
        self.adjustSize()
        corner = self._opener.mapToGlobal(QPoint(self._opener.width(), self._opener.height()))
        screen = self._opener.screen().availableGeometry()
        left = max(screen.left(), min(corner.x(), screen.right()) - self.width())
        top = max(screen.top(), min(corner.y() + _BELOW, screen.bottom() - self.height()))
        self.move(left, top)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Closed by its opener; Escape closes it anyway."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            self.close()
            return
        super().keyPressEvent(event)

    def _show(self) -> None:
        samples = self._model.samples
        self._gpus.show_gpus(self._model)
        for quantity, curve in self._curves.items():
            planned = self._model.planned_bytes / 2**20 if quantity is VIDEO_MEMORY else 0.0
            curve.show_samples(samples, planned)
        self._stages.show_times(self._model)
        times = self._model.work_times
        self._waits.setText(labels.gpu_waits(times.waits_for, times.waiting))
        self._waits.setVisible(bool(times.waits_for))
        self._place()


class GpuChoice(ChoiceBox):
    """Which of several GPUs is shown; hidden where there is only one."""

    chosen = Signal(int)  # its number

    def __init__(self) -> None:
        super().__init__()
        named(self, "shownGpu")
        self.setAccessibleName(tr("GPU"))
        self._gpus: tuple[int, ...] = ()
        self.activated.connect(lambda at: self.chosen.emit(self._gpus[at]))

    def show_gpus(self, model: TelemetryModel) -> None:
        """GPUs of the latest reading, with the one that is shown."""
        gpus, reading = model.gpus, model.reading
        self.setVisible(len(gpus) > 1)
        found = tuple(gpu.number for gpu in gpus)
        if found != self._gpus:
            self._gpus = found
            self.clear()
            names = [gpu.name for gpu in gpus]
            for gpu in gpus:
                is_alone = names.count(gpu.name) == 1
                self.offer(gpu.name if is_alone else f"{gpu.name} ({gpu.number})")
        if reading is not None and reading.gpu is not None:
            self.setCurrentIndex(found.index(reading.gpu.number))


class CurveRow(QWidget):
    """Name, present figure and parts of a quantity, and its curve below; hidden without values."""

    def __init__(self, quantity: Quantity) -> None:
        super().__init__()
        self._quantity = quantity
        self._name, self._figure = label(quantity.name), label(kind="gauge")
        self._parts, self.curve = named(Legend(), kind="secondary"), Curve()
        head = row(self._name, self._parts, STRETCH, self._figure, spacing=12)
        column(head, self.curve, spacing=3, on=self)

    def show_samples(self, samples: Sequence[Sample], planned: float) -> None:
        """The samples of the last minute and the planned peak in the unit of values; 0 for none."""
        known = [(one, value) for one in samples if (value := self._quantity.value(one))]
        self.setVisible(bool(known))
        if not known:
            return
        last, (ours, others) = known[-1]
        highest = max(mine + theirs for _, (mine, theirs) in known)
        whole = self._quantity.whole(last) if self._quantity.whole is not None else highest
        figure = self._quantity.text(ours + others, whole)
        self._figure.setText(figure)
        self._parts.show_parts(_legend(ours, others, planned) if self._quantity.is_shared else ())
        self.curve.setAccessibleName(f"{self._name.text()} {figure}")
        points = [(last.reading.at - one.reading.at, *value) for one, value in known]
        self.curve.show_points(points, whole, planned)


def _legend(ours: float, others: float, planned: float) -> list[tuple[str, str]]:
    """Colour and text of each part in MB."""
    theme = tokens.current()
    parts = [
        (theme.accent, f"Upreel {labels.gigabytes(ours)}"),
        (theme.others, tr("others {size}", size=labels.gigabytes(others))),
    ]
    if planned:
        parts.append((theme.warning, tr("planned peak {size}", size=labels.gigabytes(planned))))
    return parts


class Curve(QWidget):
    """Our part and, on top of it, others' over the last minute; amber is the planned peak."""

    def __init__(self) -> None:
        super().__init__()
        self.points: list[tuple[float, float, float]] = []
        self._whole = self._planned = 0.0
        self.setFixedHeight(_HEIGHT)

    def show_points(
        self, points: list[tuple[float, float, float]], whole: float, planned: float
    ) -> None:
        """Age in s, our part and others' of each point, oldest first; 0 `planned` for none."""
        self.points, self._whole, self._planned = points, whole, planned
        self.update()

    def sizeHint(self) -> QSize:
        """A wide, low line."""
        return QSize(_WIDTH, _HEIGHT)

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Draw ground, parts and planned peak."""
        theme, painter = tokens.current(), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(self.rect(), QColor(theme.surface_2))
        if self._whole <= 0:
            return
        both = [(age, ours + others) for age, ours, others in self.points]
        self._area(painter, both, theme.others)
        self._area(painter, [(age, ours) for age, ours, _ in self.points], theme.accent)
        if self._planned:
            painter.setPen(QPen(QColor(theme.warning), 2))
            y = self._y(self._planned)
            painter.drawLine(QPointF(0, y), QPointF(self.width(), y))

    def _area(self, painter: QPainter, line: Sequence[tuple[float, float]], colour: str) -> None:
        if not any(value for _, value in line):
            return
        points = [QPointF(self._x(age), self._y(value)) for age, value in line]
        bottom = float(self.height())
        ground = [QPointF(points[-1].x(), bottom), QPointF(points[0].x(), bottom)]
        inside = QColor(colour)
        inside.setAlphaF(0.35)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(inside)
        painter.drawPolygon(QPolygonF([*points, *ground]))
        painter.setPen(QPen(QColor(colour), 1.5))
        painter.drawPolyline(QPolygonF(points))
        if len(points) == 1:  # nothing to connect it with yet
            painter.fillRect(QRectF(points[0].x() - 2, points[0].y() - 1, 2, 2), QColor(colour))

    def _x(self, age: float) -> float:
        return self.width() * (1.0 - age / HISTORY_S)

    def _y(self, value: float) -> float:
        return 1.0 + (self.height() - 2.0) * (1.0 - min(1.0, value / self._whole))


class TimesTable(QWidget):
    """Taken and planned time of each stage; hidden before the first video begins."""

    def __init__(self) -> None:
        super().__init__()
        named(self, "timesTable")
        self._grid = grid(spacing=(20, 3), margins=(0, 2, 0, 0), wide=[0], on=self)
        self._labels: dict[tuple[int, int], Label] = {}

    def show_times(self, model: TelemetryModel) -> None:
        """Times of the job of the model, as of its last reading."""
        now = model.reading.at if model.reading is not None else 0.0
        rows = stage_rows(model, now)
        self.setVisible(bool(rows))
        head = (tr("Stages of this video"), tr("actual"), tr("planned"))
        for at, texts in enumerate([head, *rows]):
            for across, text in enumerate(texts):
                self._label(at, across).setText(text)
        for (at, _), cell in self._labels.items():
            cell.setVisible(at <= len(rows))

    def _label(self, at: int, across: int) -> Label:
        cell = self._labels.get((at, across))
        if cell is None:
            head = "secondary" if across else "section"
            cell = self._labels[at, across] = label(kind="small" if at else head)
            side = RIGHT if across else LEFT
            self._grid.addWidget(cell, at, across, side | MIDDLE)
        return cell


def stage_rows(model: TelemetryModel, now: float) -> list[tuple[str, str, str]]:
    """Name, taken and planned time of each stage, and of those inside the one that enlarges."""
    planned = {one.stage: one.seconds for one in model.plan.stages} if model.plan else {}
    rows = []
    for stage, seconds in model.work_times.seconds(now).items():
        name = "latents" if stage == _LATENTS else stage
        plan = labels.duration(planned[name]) if name in planned else ""
        rows.append((labels.stage_name(name), labels.duration(seconds), plan))
        if stage == "run":
            rows += _rows_inside(model.work_times.inside, planned)
    return rows


def _rows_inside(
    taken: Mapping[str, float], planned: Mapping[str, float]
) -> Iterator[tuple[str, str, str]]:
    """Lines of stages that take turns or run in parallel; none of 0 s."""
    for stage in dict.fromkeys(("load", *planned, "wait-read", "wait-write")):
        seconds, plan = taken.get(stage), planned.get(stage, 0.0)
        if stage not in _AROUND and (round(seconds or 0.0) or round(plan)):
            yield (
                f"    {labels.stage_name(stage)}",
                "" if seconds is None else labels.duration(seconds),
                labels.duration(plan) if stage in planned else "",
            )
