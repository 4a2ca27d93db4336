"""How a finished job ended, in two lines, with the buttons that follow from it."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QIcon, QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app import labels
from app.actions import Actions
from app.i18n import tr
from app.theme import tokens
from app.theme.icons import icon, pixmap
from app.widgets.controls import ElidedLabel
from app.widgets.plain import Label, set_tip
from engine.core.units import bytes_text, memory_text
from engine.protocol.report import Report

_BETWEEN = 70  # px of icon and margins


class ReportStrip(QFrame):
    """What the checks have found, and facts about the job; what failed is in `DoubtCard`."""

    compare_clicked = Signal()

    def __init__(self, actions: Actions, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("reportStrip")
        self.setProperty("kind", "card")
        self._report: Report | None = None
        self._icon = Label()
        self._title, self._detail = ElidedLabel(), ElidedLabel()
        self._title.setObjectName("reportTitle")
        self._detail.setObjectName("reportDetail")
        self._detail.setProperty("kind", "secondary")
        self._open, self._folder = QPushButton(), QPushButton()
        self._details, self._compare, self._again = QPushButton(), QPushButton(), QPushButton()
        self._buttons = self._again, self._compare, self._details, self._folder, self._open
        self._open.setObjectName("openButton")
        self._folder.setObjectName("folderButton")
        self._details.setObjectName("reportButton")
        self._compare.setObjectName("compareButton")
        self._again.setObjectName("againButton")
        self._open.clicked.connect(actions["open_result"].trigger)
        self._folder.clicked.connect(actions["show_in_folder"].trigger)
        self._details.clicked.connect(actions["report"].trigger)
        self._compare.clicked.connect(self.compare_clicked)
        self._again.clicked.connect(actions["run_again"].trigger)
        words = QVBoxLayout()
        words.setSpacing(2)
        words.addWidget(self._title)
        words.addWidget(self._detail)
        row = QHBoxLayout(self)
        row.setContentsMargins(14, 10, 12, 10)
        row.setSpacing(8)
        row.addWidget(self._icon, 0, Qt.AlignmentFlag.AlignVCenter)
        row.addSpacing(4)
        row.addLayout(words, 1)
        for button in self._buttons:
            row.addWidget(button, 0, Qt.AlignmentFlag.AlignVCenter)

    def show_report(self, report: Report) -> None:
        """The job is done."""
        self._report = report
        self.retranslate()

    @property
    def text(self) -> str:
        """Both lines."""
        return f"{self._title.whole}\n{self._detail.whole}"

    def _fill(self, name: str, kind: str, title: str, facts: list[str]) -> None:
        theme = tokens.current()
        colour = {"good": theme.accent, "warning": theme.warning}[kind]
        self._icon.setPixmap(pixmap(name, colour, 24))
        self._title.setProperty("kind", kind)
        self._title.style().polish(self._title)  # the style sheet reads `kind` only now
        self._title.setText(title)
        counts = range(max(1, len(facts)), 0, -1)  # in a narrow window the last ones go first
        self._detail.setText(*(" · ".join(facts[:count]) for count in counts))

    def _fill_report(self, report: Report) -> None:
        total, bad = len(report.checks), len(report.problems)
        if bad:
            found = tr("{bad} of {total} checks failed", bad=bad, total=total)
            self._fill("warning", "warning", found, _summary(report))
        else:
            found = tr("All {total} checks passed", total=total)
            self._fill("check", "good", found, _summary(report))

    def changeEvent(self, event: QEvent) -> None:
        """Another language or theme."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.LanguageChange, QEvent.Type.PaletteChange):
            self.retranslate()

    def retranslate(self) -> None:
        """Set all texts and icons again."""
        set_tip(self._open, tr("Open the result in your default program"))
        self._folder.setAccessibleName(tr("Folder"))
        set_tip(self._folder, tr("Show the result in its folder"))
        self._details.setAccessibleName(tr("Report"))
        set_tip(self._details, tr("Every check, with the values of source and result"))
        self._compare.setAccessibleName(tr("Compare"))
        set_tip(self._compare, tr("Play both videos in sync"))
        self._again.setAccessibleName(tr("Run again with other settings"))
        set_tip(self._again, tr("Run again with other settings (Ctrl+D); this result is kept"))
        if self._report is not None:
            self._fill_report(self._report)
        self._give_way()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Find out what fits."""
        super().resizeEvent(event)
        self._give_way()

    def _give_way(self) -> None:
        """In a narrow window buttons become icons, one by one; the words of the ending stay."""
        texts = {
            self._open: tr("Open"),
            self._compare: tr("Compare"),
            self._again: tr("Run again …"),
            self._folder: tr("Folder"),
            self._details: tr("Report"),
        }
        for button, label in texts.items():
            button.setText(label)
            button.setIcon(QIcon())
        icons = {
            self._again: "copy",
            self._folder: "folder",
            self._details: "check",
            self._compare: "side-by-side",
        }
        self._icon.show()
        for button, name in icons.items():
            if self._fits:
                return
            button.setText("")
            button.setIcon(icon(name, size=16))
        self._icon.setVisible(self._fits)

    @property
    def _fits(self) -> bool:
        needed = self._title.sizeHint().width() + _BETWEEN
        needed += sum(button.sizeHint().width() + 8 for button in self._buttons)
        return needed <= self.width()


def _summary(report: Report) -> list[str]:
    """Frames, likeness, time, speed and memory; what is not known is left out."""
    parts = []
    if report.frames_out:
        parts.append(tr("{count} frames", count=report.frames_out))
    if report.likeness_mean:
        parts.append(tr("similarity {value}", value=f"{report.likeness_mean:.3f}"))
    if report.seconds > 0:
        parts.append(labels.duration(report.seconds))
        if report.frames_out:
            parts.append(tr("{rate} fps", rate=f"{report.frames_out / report.seconds:.1f}"))
    if report.peak_bytes:
        parts.append(tr("at most {size}", size=bytes_text(report.peak_bytes)))
    most = report.largest_on_gpu
    if most is not None:
        sizes = {"size": memory_text(most.peak.requested), "planned": memory_text(most.planned)}
        parts.append(tr("GPU {size}, {planned} planned", **sizes))
    return parts
