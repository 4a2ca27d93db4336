"""The gauge of a card's memory: ours, others', what spilled, and who holds the rest."""

from __future__ import annotations

from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.i18n import tr
from app.widgets.meters import ShareRing
from engine.protocol.gpu_reading import GpuProcess, GpuReading

_MB_PER_GB = 1024
_MOST_HOLDERS = 6


class VideoMemory(QWidget):
    """A ring with used and total memory of the card; hidden while there is no card."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("videoMemory")
        self._ring = ShareRing()
        self._name, self._figure = QLabel("VRAM"), QLabel()
        self._name.setObjectName("videoMemoryName")
        self._name.setProperty("kind", "secondary")
        self._figure.setProperty("kind", "gauge")
        texts = QVBoxLayout()
        texts.setSpacing(0)
        texts.addStretch()
        texts.addWidget(self._name)
        texts.addWidget(self._figure)
        texts.addStretch()
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        row.addWidget(self._ring)
        row.addLayout(texts)
        self.setVisible(False)

    def show_reading(self, gpu: GpuReading, planned_bytes: int) -> None:
        """Memory now, and the peak that is planned for the card; 0 for none."""
        total = max(1, gpu.total_mb)
        planned = planned_bytes / 2**20 / total
        self._ring.set_shares(
            gpu.ours_mb / total,
            gpu.others_mb / total,
            spilled=gpu.spilled_mb / total,
            tick=planned or None,
        )
        self._figure.setText(f"{_number(gpu.ours_mb + gpu.others_mb)} / {_gb(gpu.total_mb)}")
        self._say_spill(gpu.spilled_mb)
        self.setToolTip("\n".join(_lines(gpu, planned_bytes)))
        self.setAccessibleName(f"VRAM {self._figure.text()}")
        self.setAccessibleDescription(self.toolTip())

    def _say_spill(self, spilled_mb: int) -> None:
        kind = "spilled" if spilled_mb else "secondary"
        self._name.setText(tr("{size} spilled", size=_gb(spilled_mb)) if spilled_mb else "VRAM")
        if self._name.property("kind") != kind:
            self._name.setProperty("kind", kind)
            self._name.style().polish(self._name)


def about_card(gpu: GpuReading) -> str:
    """Name, power, connection and driver of a card, as far as they are known; one a line."""
    lines = [gpu.name]
    if gpu.power_w:
        lines.append(tr("{watts} W", watts=gpu.power_w))
    if gpu.link:
        lines.append(tr("connected by {link}", link=gpu.link))
    if gpu.driver:
        lines.append(tr("Driver {version}", version=gpu.driver))
    return "\n".join(lines)


def _lines(gpu: GpuReading, planned_bytes: int) -> list[str]:
    """What the ring shows in words, and which programs hold memory."""
    ours, others = _number(gpu.ours_mb), _number(gpu.others_mb)
    lines = [tr("Upreel {ours} GB, others {others} GB", ours=ours, others=others)]
    if gpu.spilled_mb:
        size = _gb(gpu.spilled_mb)
        lines.append(tr("Windows moved {size} of ours to main memory: very slow", size=size))
    if planned_bytes:
        lines.append(tr("planned peak {size}", size=_gb(planned_bytes / 2**20)))
    if gpu.processes:
        lines.append(tr("Other programs on the card:"))
        lines += [f"  {_held(holder)}" for holder in gpu.processes[:_MOST_HOLDERS]]
    more = len(gpu.processes) - _MOST_HOLDERS
    return [*lines, tr("and {count} more", count=more)] if more > 0 else lines


def _held(holder: GpuProcess) -> str:
    return holder.name if holder.mb is None else f"{holder.name}: {_gb(holder.mb)}"


def _number(megabytes: float) -> str:
    return f"{megabytes / _MB_PER_GB:.1f}"


def _gb(megabytes: float) -> str:
    return f"{_number(megabytes)} GB"
