"""Notices of a plan: changes, refusals, findings, with choices that help, and its downloads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QApplication, QPushButton, QWidget

from app.actions import Actions
from app.engine_messages import button, choice_text, hint, setting_title, text
from app.i18n import tr
from app.installs import runtime_labels
from app.installs.installable import problem, progress
from app.labels import model_name
from app.plan.folded_notice import FoldedNotice
from app.state.downloads_model import DownloadsModel, required_download
from app.state.job_row import Downgrade, JobRow
from app.state.tasks_model import TaskState
from app.widgets.controls import FlowLayout
from app.widgets.error_view import ACTION_OF
from app.widgets.layouts import clear_layout, column
from app.widgets.meters import ShareBar
from app.widgets.notice_line import NoticeLine
from app.widgets.parts import follow_in_tab_order, label, named
from app.widgets.plain import caption, set_tip
from app.widgets.tab_stop import TabStop
from engine.core.errors import (
    ErrorInfo,
    PlanDoesNotFit,
    PretendedGpu,
    SettingsError,
    WeightsMissing,
)
from engine.core.messages import message
from engine.protocol.plan import Notice
from engine.protocol.tasks import TaskKind
from engine.settings.assignments import with_text
from engine.settings.schema import JobSettings

PARAM = "offers"  # of a notice: "height=1080,width=0;model=lite", the most helpful first
_MOST = 3


@dataclass(frozen=True, slots=True)
class Offer:
    """Choices that help: text of the button, and values by setting."""

    text: str
    values: dict[str, Any]


def offers_of(notice: Notice, settings: JobSettings) -> list[Offer]:
    """Buttons for a notice; what this version does not know, or is chosen already, is left out."""
    found = []
    for offer in str(notice.params.get(PARAM, "")).split(";"):
        values = _values(offer, settings)
        if values:
            title = offer_text(values, settings)
            if notice.code == WeightsMissing.code:
                title = tr("{text} for now", text=title)
            found.append(Offer(title, values))
    return found[:_MOST]


def offer_text(values: dict[str, Any], settings: JobSettings) -> str:
    """Text of a button that chooses values."""
    if "model" in values and values["model"] != "auto":
        return tr("Use {choice}", choice=model_name(values["model"]))
    if values.get("width") and values.get("height"):
        return tr("Change to {size}", size=f"{values['width']}×{values['height']}")
    if values.get("height"):
        size = {2160: "4K"}.get(values["height"], f"{values['height']}p")
        return tr("Change to {size}", size=size)
    if "scale" in values or "height" in values:
        return tr("Change to {size}", size=f"×{values.get('scale', settings.scale)}")
    name, value = next(iter(values.items()))
    if name in ("precision", "matmul"):
        return tr("Use {choice}", choice=choice_text(name, str(value)))
    if value == "auto" and name not in ("deinterlace", "speed"):
        return tr("Choose automatically")
    return tr("{setting}: {choice}", setting=setting_title(name), choice=choice_text(name, value))


def _values(offer: str, settings: JobSettings) -> dict[str, Any]:
    """The settings of one offer that are not chosen already; {} where it cannot be read."""
    assignments = [part.strip() for part in offer.split(",") if part.strip()]
    try:
        requested = with_text(settings, assignments)
    except SettingsError:
        return {}
    names = [part.partition("=")[0].strip() for part in assignments]
    values = {name: getattr(requested, name) for name in names}
    return values if requested != settings else {}


PRETENDED = PretendedGpu.code  # shown by a chip
_SHOWN_ABOVE = (
    "trained-on-stills",  # shown next to the choice of the model: hint of `choice.model.wan-2x`
    PRETENDED,
)
_ORDER = {"refusal": 0, "warning": 1, "info": 2}
_CHANGED, _NOTES = "planChanged", "notes"


class PlanNotices(QWidget):
    """Refusals, the first of them open; then warnings; then notes behind one line."""

    choices_requested = Signal(dict)  # settings by name

    def __init__(
        self, downloads: DownloadsModel, actions: Actions, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._actions = actions
        self._films, self._failures = downloads.films, downloads.failures
        self._downloads = DownloadLines(downloads)
        self._job_id = ""
        self._opened: dict[str, bool] = {}  # by the user: key of a notice -> is open
        self._lines = column(spacing=4)
        self._below = FlowLayout(spacing=6)  # buttons of what is being downloaded
        column(self._lines, self._downloads, self._below, spacing=6, on=self)
        self._stop = TabStop(self)

    def show_job(self, row: JobRow) -> None:
        """Show what is known about the plan of a job."""
        focus = QApplication.focusWidget()
        focused = focus.objectName() if focus is not None and self.isAncestorOf(focus) else ""
        if row.job_id != self._job_id:
            self._job_id, self._opened = row.job_id, {}
        clear_layout(self._lines)
        self._below.clear()
        controls, below = list[QWidget](), list[QPushButton]()  # for the keyboard
        notes = list[FoldedNotice]()
        if row.downgrades:
            changed = _changed_line(row.downgrades)
            self._open(_CHANGED, changed, opens=False)
            self._lines.addWidget(changed)
            controls += changed.controls
        self._downloads.show_job(row)
        found = self._found(row)
        is_coming = row.job_id in (*self._films, *self._failures)
        for at, notice in enumerate(found):
            buttons = self._buttons(notice, row, at)
            for one in buttons:
                if one.objectName() == focused:
                    QTimer.singleShot(0, one, one.setFocus)
            if is_coming and notice.code == WeightsMissing.code:  # its lines say more
                for one in buttons:
                    self._below.addWidget(one)
                below += buttons
                continue
            is_refusal = notice.severity == "refusal"
            is_note = notice.severity == "info"
            line = FoldedNotice(*_words(notice), buttons, is_whole=not is_note)
            self._open(f"{notice.code}.{notice.case}", line, opens=is_refusal and at == 0)
            if is_note:
                notes.append(line)
                continue
            self._lines.addWidget(line)
            controls += line.controls
        if len(notes) > 1:
            together = FoldedNotice("info", tr("{count} notes", count=len(notes)), notices=notes)
            self._open(_NOTES, together, opens=False)
            notes = [together]
        for line in notes:
            self._lines.addWidget(line)
            controls += line.controls
        follow_in_tab_order(self, (*controls, *below))
        self._stop.set_controls((*controls, *below))
        self.setVisible(bool(found or row.downgrades) or not self._downloads.isHidden())

    def _found(self, row: JobRow) -> list[Notice]:
        notices = (*(row.plan.notices if row.plan else ()), *row.warnings)
        found = [notice for notice in notices if notice.code not in _SHOWN_ABOVE]
        return sorted(found, key=_rank)

    def _open(self, key: str, line: FoldedNotice, *, opens: bool) -> None:
        """Open a line as it was, and remember what the user does with it."""
        line.set_open(self._opened.get(key, opens))
        line.toggled.connect(lambda is_open: self._opened.__setitem__(key, is_open))

    def _buttons(self, notice: Notice, row: JobRow, at: int) -> list[QPushButton]:
        """Choices that help; for what keeps the video from starting also another remedy."""
        is_refusal = notice.severity == "refusal"
        is_first = row.state.can_change and row.plan is not None and row.plan.fits
        offers = offers_of(notice, row.settings) if is_refusal or is_first else []
        name = "planOffer" if is_refusal and at == 0 else f"planRemedy{at}_"
        buttons = [self._offer_button(offer, f"{name}{n}") for n, offer in enumerate(offers)]
        action = ACTION_OF.get(notice.code) if is_refusal else ""
        if notice.code == WeightsMissing.code and required_download(row):
            action = ""  # the main button downloads it
        if action and not (offers and action == "choices"):
            buttons.append(self._help_button(notice, action, at))
        return buttons

    def _help_button(self, refusal: Notice, action: str, at: int) -> QPushButton:
        help_ = named(QPushButton(button(refusal.code)), f"planHelp{at or ''}")
        help_.clicked.connect(self._actions[action].trigger)
        return help_

    def _offer_button(self, offer: Offer, name: str) -> QPushButton:
        chooses = named(QPushButton(caption(offer.text)), name)
        chooses.clicked.connect(lambda: self.choices_requested.emit(offer.values))
        return chooses


def _rank(notice: Notice) -> tuple[int, bool]:
    """Refusals first, and of those what does not fit: no use in downloading a model for that."""
    return _ORDER[notice.severity], notice.code != PlanDoesNotFit.code


def _changed_line(downgrades: tuple[Downgrade, ...]) -> FoldedNotice:
    """The last change in full; those before it are its tool tip."""
    last = downgrades[-1]
    if last.notice is None:
        why = tr("switched to another plan: {why}", why=_change(last))
        line = FoldedNotice("info", why, is_whole=True)
    else:
        line = FoldedNotice("info", text(last.notice), hint(last.notice), is_whole=True)
    line.setObjectName(_CHANGED)
    set_tip(line, "\n".join(map(_change, downgrades[:-1])))
    return line


def _change(downgrade: Downgrade) -> str:
    return text(downgrade.notice or message(f"reason.downgrade.{downgrade.why}"))


def _words(notice: Notice) -> tuple[str, str, str]:
    """Severity, sentence and hint; without commands that get missing files: a button does."""
    if notice.code == WeightsMissing.code:
        return "info", text(notice), ""
    return notice.severity, text(notice), hint(notice)


class DownloadLines(QWidget):
    """A line and a bar for the NVIDIA runtime and for model files; hidden for other videos."""

    def __init__(self, model: DownloadsModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._model = model
        self._row: JobRow | None = None
        self._lines = {kind: _Line() for kind in (TaskKind.RUNTIME, TaskKind.MODEL_FILE)}
        self._then = label(kind="secondary", wraps=True)
        self._problem = named(NoticeLine(), "downloadProblem")
        column(*self._lines.values(), self._then, self._problem, spacing=8, on=self)
        model.changed.connect(self._show)
        model.progressed.connect(self._show)

    def show_job(self, row: JobRow) -> None:
        """Show the downloads of a job."""
        self._row = row
        self._show()

    def _show(self, _subject: str = "") -> None:
        job_id = self._row.job_id if self._row is not None else ""
        needs, failure = self._model.films.get(job_id), self._model.failures.get(job_id)
        tasks = self._model.progress(needs) if needs is not None else {}
        for kind, line in self._lines.items():
            line.setVisible(kind in tasks)
            if kind in tasks:
                line.show_task(_title(kind, tasks[kind]), tasks[kind])
        self._then.setVisible(needs is not None)
        if needs is not None:
            self._then.setText(
                tr("Upreel then restarts and starts the video.")
                if needs.runtime
                else tr("The video then starts automatically.")
            )
        self._problem.setVisible(failure is not None)
        if failure is not None:
            self._problem.show_message("refusal", *_problem(failure.kind, failure.error))
        self.setVisible(needs is not None or failure is not None)


def _title(kind: TaskKind, task: TaskState) -> str:
    if kind is TaskKind.RUNTIME:
        return runtime_labels.phase_title(task)
    return tr("Downloading the model")


def _problem(kind: TaskKind, error: ErrorInfo) -> tuple[str, str]:
    is_runtime = kind is TaskKind.RUNTIME
    return runtime_labels.problem(error) if is_runtime else problem(error)


class _Line(QWidget):
    """A download's title, its figures, and a bar below."""

    def __init__(self) -> None:
        super().__init__()
        self._title = label(kind="small", wraps=True)
        self._figures = label(kind="secondary", wraps=True)
        self._bar = ShareBar()
        column(self._title, self._bar, self._figures, spacing=2, on=self)

    def show_task(self, title: str, task: TaskState) -> None:
        figures = tr("Please wait …") if task.waits else progress(task)
        self._title.setText(title)
        self._figures.setText(figures)
        self._bar.set_shares(task.share)
        self._bar.setAccessibleName(f"{title}: {figures}")
