"""Card of a plan: whether it fits, time, size of the file, free disk, most memory, notices."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QWidget

from app import engine_messages, labels
from app.actions import Actions
from app.bound import bind
from app.i18n import tr
from app.plan.memory_bars import MemoryBars, fullest
from app.plan.notices import PRETENDED, PlanNotices
from app.plan.streams import summary
from app.state.downloads_model import DownloadsModel, can_download
from app.state.job_row import JobRow
from app.theme.icons import pixmap
from app.widgets.layouts import STRETCH, TOP, column, row
from app.widgets.notice_line import colour_of
from app.widgets.parts import button, label, named, set_kind
from app.widgets.plain import set_tip
from app.widgets.tab_stop import TabStop
from engine.core.errors import PlanDoesNotFit, WeightsMissing
from engine.core.units import bytes_text
from engine.protocol.plan import Plan

_LITTLE_ROOM = "disk-may-fill"  # a warning
_OF_PRETENDED = (PRETENDED, WeightsMissing.code)  # refusals that are not about memory


class PlanCard(QFrame):
    """Shows one plan; everything in it comes from the engine's prediction."""

    choices_requested = Signal(dict)  # settings by name, that a refusal offers
    why_requested = Signal()  # `PlanDetails` shall open

    def __init__(
        self, downloads: DownloadsModel, actions: Actions, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        named(self, "planCard", "card")
        self._downloads = downloads
        self._row: JobRow | None = None
        self._icon, self._head = label(), label(name="planHead")
        self._planned_for = label(kind="planned", name="plannedFor", wraps=True)
        self._bars = MemoryBars()  # only the fullest; all of them are in `PlanDetails`
        self._figures = [named(_Figure(), f"plan-{name}") for name in ("time", "size", "disk")]
        self._guess = button("Measure speed", "speedTest", "link", on=actions["bench"].trigger)
        self._notes = PlanNotices(downloads, actions)
        self._streams = label(kind="secondary", name="planStreams", wraps=True)
        self._machines = label(kind="secondary", name="planMachines", wraps=True)
        why = button("Why this plan", "whyThisPlan", "link", on=self.why_requested)
        self._notes.choices_requested.connect(self.choices_requested)
        column(
            row(self._icon, self._head, STRETCH, why, spacing=6),
            self._planned_for,
            row(*self._figures, spacing=14),
            self._bars,
            self._notes,
            row((self._streams, 1), (self._guess, 0, TOP), spacing=14),
            self._machines,
            spacing=5,
            margins=(14, 10, 14, 10),
            on=self,
        )
        TabStop(self, (why, self._guess))
        bind(self, self._show, theme=True)

    def show_job(self, row: JobRow) -> None:
        """Show the plan of a job."""
        if row.plan is not None:
            self._row = row
            self._show()

    def _show(self) -> None:
        row = self._row
        if row is None or row.plan is None:
            return
        self._show_head(row)
        self._bars.show_rows([fullest(row.plan)])
        self._bars.setVisible(_is_about_memory(row.plan))
        self._show_figures(row)
        self._notes.show_job(row)
        self._streams.setText(summary(row))
        self._show_machines(row.plan)

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
        elif row.waits_for_room:
            text, icon, severity = labels.state(row), "warning", "warning"
        elif any(notice.code == _LITTLE_ROOM for notice in plan.notices):
            text, icon, severity = tr("The disk may become full"), "warning", "warning"
        else:
            text = tr("Would fit into memory") if plan.is_pretended else tr("Fits into memory")
            icon, severity = "check", "good"
        self._icon.setPixmap(pixmap(icon, colour_of(severity), 18))
        self._head.setText(text)
        kinds = {"refusal": "error", "warning": "warning", "info": "strong", "good": "good"}
        set_kind(self._head, kinds[severity])
        self._planned_for.setVisible(plan.is_pretended)
        self._planned_for.setText(
            tr("Planned for {gpu}, which is not in this computer", gpu=plan.card)
        )

    def _show_figures(self, row: JobRow) -> None:
        plan = row.plan
        assert plan is not None
        time, file, free = self._figures
        for figure in self._figures:  # the error of a download needs the room
            figure.setVisible(row.job_id not in self._downloads.failures)
        caption = tr("time, measured") if plan.is_measured else tr("time, estimated")
        time.show_text(labels.expected(plan), caption)
        file.show_text(bytes_text(plan.output_bytes), tr("file size"))
        drive = plan.output.drive
        where = tr("free on {drive}", drive=drive) if drive else tr("free on disk")
        if plan.free_disk_bytes is None or row.waits_for_room:  # a sentence says what is free now
            free.hide()
        else:
            free.show_text(bytes_text(plan.free_disk_bytes), where)
        on_gpu = plan.work.device == "cuda"
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
            self._machines.setText(engine_messages.text(together))


def _is_about_memory(plan: Plan) -> bool:
    """Whether memory decides about a plan; else its bar leaves the room to what does."""
    refusals = {n.code for n in plan.notices if n.severity == "refusal"} - {PRETENDED}
    return not refusals or PlanDoesNotFit.code in refusals


class _Figure(QWidget):
    """A number and, below it, what it counts."""

    def __init__(self) -> None:
        super().__init__()
        self._figure, self._unit = label(kind="figure"), label(kind="secondary")
        column(self._figure, self._unit, spacing=0, on=self)

    def show_text(self, figure: str, unit: str) -> None:
        self._figure.setText(figure)
        self._unit.setText(unit)
