"""Gauges of the machine: GPU, video memory, CPU, main memory and speed."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QKeyEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QWidget

from app import labels
from app.bound import bind
from app.i18n import tr
from app.last_minute import LastMinute
from app.state.telemetry_model import TelemetryModel
from app.theme import tokens
from app.widgets.layouts import STRETCH, column, layout_of, row, set_margins
from app.widgets.meters import ShareBar, ShareRing
from app.widgets.parts import bind_text, bind_tip, label, named, set_kind
from app.widgets.plain import set_tip
from engine.core.plain_text import one_line
from engine.protocol.gpu_reading import GpuProcess, GpuReading

_MOST_HOLDERS = 6


class VideoMemory(QWidget):
    """A ring with used and total memory of the GPU; hidden while there is none."""

    def __init__(self) -> None:
        super().__init__()
        named(self, "videoMemory")
        self._ring = ShareRing()
        self._name = label(kind="secondary", name="videoMemoryName")
        self._name.setText("VRAM")
        self._figure = label(kind="gauge")
        texts = column(STRETCH, self._name, self._figure, STRETCH, spacing=0)
        row(self._ring, texts, spacing=8, on=self)
        self.setVisible(False)

    def show_reading(self, gpu: GpuReading, planned_bytes: int) -> None:
        """Memory now, and the peak that is planned for the GPU; 0 for none."""
        total = max(1, gpu.total_mb)
        planned = planned_bytes / 2**20 / total
        self._ring.set_shares(
            gpu.ours_mb / total,
            gpu.others_mb / total,
            spilled=gpu.spilled_mb / total,
            tick=planned or None,
        )
        self._figure.setText(
            f"{labels.gigabytes(gpu.ours_mb + gpu.others_mb)} / {_gb(gpu.total_mb)}"
        )
        self._show_spill(gpu.spilled_mb)
        about = "\n".join(_lines(gpu, planned_bytes))
        set_tip(self, about)
        self.setAccessibleName(f"VRAM {self._figure.text()}")
        self.setAccessibleDescription(about)

    def _show_spill(self, spilled_mb: int) -> None:
        self._name.setText(tr("{size} spilled", size=_gb(spilled_mb)) if spilled_mb else "VRAM")
        set_kind(self._name, "spilled" if spilled_mb else "secondary")


def about_gpu(gpu: GpuReading) -> str:
    """Name, power, connection and driver of a GPU, as far as they are known; one a line."""
    lines = [one_line(gpu.name)]
    if gpu.is_pretended:
        lines.append(tr("Simulated: this computer does not have it. Jobs for it cannot start."))
    if gpu.power_w:
        lines.append(tr("{watts} W", watts=gpu.power_w))
    if gpu.link:
        lines.append(tr("Connected via {link}", link=gpu.link))
    if gpu.driver:
        lines.append(tr("Driver {version}", version=gpu.driver))
    return "\n".join(lines)


def _lines(gpu: GpuReading, planned_bytes: int) -> list[str]:
    """Text of the ring, and the programs that hold memory."""
    ours, others = labels.gigabytes(gpu.ours_mb), labels.gigabytes(gpu.others_mb)
    lines = [tr("Upreel {ours} GB, others {others} GB", ours=ours, others=others)]
    if gpu.spilled_mb:
        size = _gb(gpu.spilled_mb)
        lines.append(tr("Windows moved {size} of Upreel's GPU memory to RAM: very slow", size=size))
    if planned_bytes:
        lines.append(tr("planned peak {size}", size=_gb(planned_bytes / 2**20)))
    if gpu.processes:
        lines.append(tr("Other programs on the GPU:"))
        lines += [f"  {_held(holder)}" for holder in gpu.processes[:_MOST_HOLDERS]]
    more = len(gpu.processes) - _MOST_HOLDERS
    return [*lines, tr("and {count} more", count=more)] if more > 0 else lines


def _held(holder: GpuProcess) -> str:
    name = one_line(holder.name)
    return name if holder.mb is None else f"{name}: {_gb(holder.mb)}"


def _gb(megabytes: float) -> str:
    return f"{labels.gigabytes(megabytes)} GB"


_APART, _NEAR = 20, 12  # px between gauges
_EDGE, _EDGE_TIGHT = 8, 3  # px left and right of them


class Gauge(QWidget):
    """A name, a figure with its unit and, below, a bar where there is a whole."""

    def __init__(self, widest: str, *, has_bar: bool = False) -> None:
        super().__init__()
        self._name, self._figure = label(kind="secondary"), label(kind="gauge")
        self._figure.setText("–")
        self.bar = ShareBar() if has_bar else None
        if self.bar is None:
            column(STRETCH, self._name, self._figure, STRETCH, spacing=1, on=self)
        else:
            head = row(self._name, STRETCH, self._figure, spacing=8)
            column(STRETCH, head, self.bar, STRETCH, spacing=1, on=self)
        self._widest = widest

    def name(self, text: str) -> None:
        """The name in the current language; the figure never makes the gauge jump."""
        self._name.setText(text)
        self._figure.ensurePolished()
        width = self._figure.fontMetrics().horizontalAdvance(self._widest) + 4
        self._figure.setMinimumWidth(width)

    def show_figure(self, text: str, explanation: str = "") -> None:
        """A new figure; the explanation is also for screen readers."""
        self._figure.setText(text)
        set_tip(self, explanation)
        self.setAccessibleName(f"{self._name.text()} {text}")
        self.setAccessibleDescription(explanation)


class Gauges(QAbstractButton):
    """All gauges in a row, fed by the telemetry model; one button, which opens the last minute."""

    def __init__(self, model: TelemetryModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        named(self, "gauges")
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Expanding)
        self._model, self._is_tight = model, False
        self._video_memory = VideoMemory()
        self._ram = Gauge("88.8 / 88.8 GB", has_bar=True)
        self._cpu = Gauge("100 %", has_bar=True)
        self._gpu = Gauge("100 % · 88 °C")
        self._speed = Gauge("888.8 fps")
        parts = self._video_memory, self._gpu, self._ram, self._cpu, self._speed
        row(*parts, spacing=_APART, margins=(_EDGE, 0), on=self)
        self._gpu.setVisible(False)
        model.changed.connect(self._show)
        self.clicked.connect(self._open)
        bind_text(self, self.setAccessibleName, "Last minute")
        bind_tip(self, "Show the last minute and the time of each stage")
        bind(self, self._show_names, theme=True)

    def sizeHint(self) -> QSize:
        """Title of the row."""
        return layout_of(self).sizeHint()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter does what Space does."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.click()
            return
        super().keyPressEvent(event)

    def paintEvent(self, _event: QPaintEvent) -> None:
        """A ground below the pointer, a frame for the keyboard."""
        theme, painter = tokens.current(), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(theme.accent), 2) if self.hasFocus() else Qt.PenStyle.NoPen)
        painter.setBrush(QColor(theme.surface_2) if self.underMouse() else Qt.BrushStyle.NoBrush)
        ground = QRectF(self.rect()).adjusted(1, 4, -1, -5)
        painter.drawRoundedRect(ground, tokens.RADIUS, tokens.RADIUS)

    def _open(self) -> None:
        LastMinute(self._model, self).show()

    def set_narrow(self, is_narrow: bool, is_tight: bool) -> None:
        """Closer together where there is little room; where it is tight, without loads."""
        layout_of(self).setSpacing(_NEAR if is_narrow else _APART)
        edge = _EDGE_TIGHT if is_tight else _EDGE
        set_margins(layout_of(self), (edge, 0))
        self._is_tight = is_tight
        self._show_loads()

    def _show_loads(self) -> None:
        reading = self._model.reading
        has_gpu = reading is not None and reading.gpu is not None
        self._gpu.setVisible(has_gpu and not self._is_tight)
        self._cpu.setVisible(not (has_gpu and self._is_tight))

    def _show_names(self) -> None:
        self._ram.name(tr("RAM"))
        self._cpu.name(tr("CPU"))
        self._gpu.name(tr("GPU"))
        self._speed.name(tr("Speed"))
        self._show()

    def _show(self) -> None:
        self._show_machine()
        speed = self._model.frames_per_second
        self._speed.show_figure(
            tr("{value} fps", value=f"{speed:.1f}") if speed else "–",
            tr("Finished frames per second"),
        )

    def _show_machine(self) -> None:
        reading = self._model.reading
        if reading is None:
            return
        total = max(1, reading.ram_total_mb)
        ours, others = reading.ram_ours_mb, reading.ram_others_mb
        assert self._ram.bar is not None
        assert self._cpu.bar is not None
        self._ram.bar.set_shares(ours / total, others / total)
        self._ram.show_figure(
            f"{labels.gigabytes(ours + others)} / {_gb(total)}",
            tr(
                "Upreel {ours} GB, others {others} GB",
                ours=labels.gigabytes(ours),
                others=labels.gigabytes(others),
            ),
        )
        self._cpu.bar.set_shares(0.0, reading.cpu_percent / 100)
        self._cpu.show_figure(f"{reading.cpu_percent:.0f} %", tr("All CPU cores combined"))
        gpu = reading.gpu
        self._video_memory.setVisible(gpu is not None)
        self._show_loads()
        if gpu is not None:
            self._video_memory.show_reading(gpu, self._model.planned_bytes)
            times = self._model.work_times
            waits = labels.gpu_waits(times.waits_for, times.waiting)
            about = "\n".join(filter(None, (waits, about_gpu(gpu))))
            load = f"{gpu.load_percent} % · {gpu.temperature_c} °C"
            self._gpu.show_figure("–" if gpu.is_pretended else load, about)
