"""Card of a plan: whether it fits, notices, time, size of the file, free disk, most memory."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Signal
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app import engine_messages, labels
from app.actions import Actions
from app.i18n import tr
from app.plan.memory_bars import MemoryBars, fullest
from app.plan.notices import PRETENDED, PlanNotices
from app.plan.streams import summary
from app.state.downloads_model import DownloadsModel, can_download
from app.state.job_row import JobRow
from app.theme.icons import pixmap
from app.widgets.controls import ElidedLabel
from app.widgets.notice_line import colour_of
from app.widgets.plain import Label, set_tip
from engine.core.errors import WeightsMissing
from engine.core.messages import Message
from engine.core.units import bytes_text, memory_text
from engine.protocol.plan import Plan

_OF_PRETENDED = (PRETENDED, WeightsMissing.code)  # refusals that are not about memory


class PlanCard(QFrame):
    """Shows one plan; everything in it comes from the engine's prediction."""

    choices_requested = Signal(dict)  # settings by name, that a refusal offers
    why_requested = Signal()  # `PlanDetails` shall open

    def __init__(
        self, downloads: DownloadsModel, actions: Actions, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setProperty("kind", "card")
        self.setObjectName("planCard")
        self._downloads = downloads
        self._row: JobRow | None = None
        self._icon, self._head, self._limit = Label(), Label(), Label()
        self._head.setObjectName("planHead")
        self._limit.setProperty("kind", "secondary")
        self._planned_for = Label()
        self._planned_for.setObjectName("plannedFor")
        self._planned_for.setProperty("kind", "planned")
        self._planned_for.setWordWrap(True)
        self._bars = MemoryBars()  # only the fullest; all of them are in `PlanDetails`
        self._figures = [_Figure() for _ in range(3)]
        self._guess = QPushButton()
        self._guess.setObjectName("speedTest")
        self._guess.setProperty("kind", "link")
        self._notes = PlanNotices(downloads, actions)
        self._streams = ElidedLabel()
        self._streams.setObjectName("planStreams")
        self._streams.setProperty("kind", "secondary")
        self._machines = ElidedLabel()
        self._machines.setObjectName("planMachines")
        self._machines.setProperty("kind", "secondary")
        self._why = QPushButton()
        self._why.setObjectName("whyThisPlan")
        self._why.setProperty("kind", "link")
        self._why.clicked.connect(self.why_requested)
        self._notes.choices_requested.connect(self.choices_requested)
        self._guess.clicked.connect(actions["bench"].trigger)
        self._lay_out()

    def show_job(self, row: JobRow) -> None:
        """Show the plan of a job."""
        if row.plan is None:
            return
        self._row = row
        self._show_head(row)
        self._bars.show_rows([fullest(row.plan)])
        downloads = self._downloads
        self._bars.setVisible(row.job_id not in (*downloads.films, *downloads.failures))  # for room
        self._show_figures(row)
        self._notes.show_job(row)
        self._why.setText(tr("Why this plan"))
        self._streams.setText(summary(row))
        self._streams.setVisible(bool(self._streams.whole))
        self._show_machines(row.plan)

    def changeEvent(self, event: QEvent) -> None:
        """Follow the language and the theme."""
        super().changeEvent(event)
        requested = (QEvent.Type.LanguageChange, QEvent.Type.StyleChange)
        if event.type() in requested and self._row is not None:
            self.show_job(self._row)

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.setSpacing(6)
        head.addWidget(self._icon)
        head.addWidget(self._head)
        head.addStretch()
        head.addWidget(self._limit)
        figures = QHBoxLayout()
        for figure in self._figures:
            figures.addWidget(figure)
        figures.setSpacing(14)
        links = QHBoxLayout()
        links.setSpacing(14)
        links.addWidget(self._why)
        links.addStretch()
        links.addWidget(self._guess)
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 10, 14, 8)
        column.setSpacing(6)
        column.addLayout(head)
        column.addWidget(self._planned_for)
        column.addWidget(self._notes)
        column.addLayout(figures)
        column.addWidget(self._bars)
        column.addWidget(self._streams)
        column.addWidget(self._machines)
        column.addLayout(links)

    def _show_head(self, row: JobRow) -> None:
        plan = row.plan
        assert plan is not None
        expected = _OF_PRETENDED if plan.is_pretended else ()
        refused = any(n.severity == "refusal" and n.code not in expected for n in plan.notices)
        if row.awaits_plan:
            text, icon, severity = tr("Planning …"), "info", "info"
        elif can_download(row):
            is_coming = row.job_id in self._downloads.films
            text = tr("Downloading") if is_coming else tr("Needs a download")
            icon, severity = "download", "info"
        elif refused:
            text, icon, severity = tr("Cannot start"), "error", "refusal"
        else:
            text = tr("Would fit into memory") if plan.is_pretended else tr("Fits into memory")
            icon, severity = "check", "good"
        self._icon.setPixmap(pixmap(icon, colour_of(severity), 18))
        self._head.setText(text)
        kinds = {"refusal": "error", "info": "strong", "good": "good"}
        self._head.setProperty("kind", kinds[severity])
        self._head.style().polish(self._head)
        self._limit.setText(tr("limit {size}", size=memory_text(fullest(plan).limit)))
        self._planned_for.setVisible(plan.is_pretended)
        self._planned_for.setText(
            tr("Planned for {gpu}, which is not in this computer", gpu=plan.card)
        )

    def _show_figures(self, row: JobRow) -> None:
        plan = row.plan
        assert plan is not None
        time, file, free = self._figures
        caption = tr("time, measured") if plan.is_measured else tr("time, estimated")
        time.show_text(labels.expected(plan), caption)
        file.show_text(bytes_text(plan.output_bytes), tr("file size"))
        drive = plan.output.drive
        where = tr("free on {drive}", drive=drive) if drive else tr("free on disk")
        free.show_text(bytes_text(plan.free_disk_bytes), where)
        on_gpu = plan.work.device == "cuda"
        self._guess.setText(tr("Measure speed"))
        set_tip(
            self._guess,
            tr("Not measured on this GPU: run the speed test")
            if on_gpu
            else tr("Not measured on this computer: run the speed test"),
        )
        can_be_measured = not plan.is_measured and not plan.is_pretended
        may_start = row.state.can_change and not can_download(row)
        self._guess.setVisible(can_be_measured and may_start)

    def _show_machines(self, plan: Plan) -> None:
        self._machines.setVisible(plan.takes_machines)
        choices = plan.reasons.choices if plan.reasons is not None else ()
        together = next((one for one in choices if one.code == "machines-together"), None)
        if together is None:
            self._machines.setText(tr("Paired computers process parts of it, too"))
        else:
            time = together.params["time"]
            assert isinstance(time, Message)
            shorter = tr("About {time} with paired computers", time=engine_messages.text(time))
            self._machines.setText(engine_messages.text(together), shorter)


class _Figure(QWidget):
    """A number and, below it, what it counts."""

    def __init__(self) -> None:
        super().__init__()
        self._figure, self._unit = Label(), Label()
        self._figure.setProperty("kind", "figure")
        self._unit.setProperty("kind", "secondary")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self._figure)
        column.addWidget(self._unit)

    def show_text(self, figure: str, unit: str) -> None:
        self._figure.setText(figure)
        self._unit.setText(unit)
