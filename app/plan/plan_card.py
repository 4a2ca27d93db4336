"""Card of a plan: memory, time, size of the file, free disk, and why the plan is so."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app import labels
from app.engine_messages import hint, text
from app.i18n import tr
from app.plan.memory_bars import MemoryBars, limit_of
from app.plan.notices import PRETENDED, PlanNotices
from app.state.downloads_model import DownloadsModel, can_download
from app.state.job_row import JobRow
from app.theme.icons import icon, pixmap
from app.widgets.notice_line import colour_of
from engine.core.errors import WeightsMissing
from engine.core.units import bytes_text, memory_text
from engine.protocol.plan import Alternative, Plan, Reasons

_LEAST, _REST = 132, 600  # px of the fold at least; of the window, for everything else


class WhyFold(QWidget):
    """A button, and below it the reasons; hidden for plans that give none."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._plan: Plan | None = None
        self._button = QPushButton()
        self._button.setObjectName("whyThisPlan")
        self._button.setProperty("kind", "link")
        self._button.setCheckable(True)
        self._scroll = QScrollArea()
        self._scroll.setObjectName("whyBody")
        self._scroll.setWidgetResizable(True)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setVisible(False)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        column.addWidget(self._button, 0, Qt.AlignmentFlag.AlignLeft)
        column.addWidget(self._scroll)
        self._button.toggled.connect(self._unfold)

    def show_plan(self, plan: Plan) -> None:
        """Show another plan; the fold stays as it is."""
        self._plan = plan
        self.setVisible(plan.reasons is not None)
        self._button.setText(tr("Why this plan"))
        is_open = self._button.isChecked()
        self._button.setIcon(icon("chevron-up" if is_open else "chevron-down", size=14))
        if is_open and plan.reasons is not None:
            self._scroll.setWidget(_body(plan, plan.reasons))
            self._fit()

    def unfold(self) -> None:
        """Show the reasons."""
        self._button.setChecked(True)

    def changeEvent(self, event: QEvent) -> None:
        """Follow the language and the theme."""
        super().changeEvent(event)
        requested = (QEvent.Type.LanguageChange, QEvent.Type.StyleChange)
        if event.type() in requested and self._plan is not None:
            self.show_plan(self._plan)

    def _unfold(self, is_open: bool) -> None:
        self._scroll.setVisible(is_open)
        if self._plan is not None:
            self.show_plan(self._plan)

    def _fit(self) -> None:
        """As high as the text, as far as the choices above keep some room."""
        body, width = self._scroll.widget(), max(self.width(), 200)
        requested = body.heightForWidth(width - 12) + 4
        self._scroll.setFixedHeight(min(requested, max(_LEAST, self.window().height() - _REST)))


def _body(plan: Plan, reasons: Reasons) -> QWidget:
    body = QWidget()
    body.setObjectName("scrolled")
    column = QVBoxLayout(body)
    column.setContentsMargins(0, 0, 10, 0)
    column.setSpacing(4)
    column.addWidget(_wrapped(text(reasons.as_message)))
    if reasons.alternatives:
        column.addSpacing(4)
        column.addWidget(_heading(tr("One step away")))
        column.addLayout(_steps(plan, reasons.alternatives))
    if reasons.choices:
        column.addSpacing(4)
        column.addWidget(_heading(tr("What was chosen")))
    for choice in reasons.choices:
        line = _wrapped(text(choice), "secondary")
        line.setToolTip(hint(choice))
        column.addWidget(line)
    column.addStretch(1)
    return body


def _steps(plan: Plan, alternatives: tuple[Alternative, ...]) -> QGridLayout:
    grid = QGridLayout()
    grid.setHorizontalSpacing(10)
    grid.setVerticalSpacing(6)
    grid.setColumnStretch(0, 1)
    for at, step in enumerate(alternatives):
        title = text(step.message) if step.message is not None else ""
        grid.addWidget(_wrapped(title, "secondary"), at, 0)
        figures = QLabel(_figures(plan, step))
        figures.setProperty("kind", "small" if step.fits else "secondary")
        figures.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignTop)
        grid.addWidget(figures, at, 1, Qt.AlignmentFlag.AlignTop)
    return grid


def _figures(plan: Plan, step: Alternative) -> str:
    """What a step needs and how much longer it takes, in two lines."""
    size = memory_text(step.device_bytes if plan.device_bytes else step.ram_bytes)
    if not step.fits and step.device_bytes <= plan.device_budget_bytes:
        return f"{memory_text(step.ram_bytes)}\n{tr('main memory: does not fit')}"
    if not step.fits:
        return f"{size}\n{tr('does not fit')}"
    return f"{size}\n{labels.difference(step.seconds - plan.seconds)}"


def _heading(text: str) -> QLabel:
    label = QLabel(text)
    label.setProperty("kind", "section")
    return label


def _wrapped(text: str, kind: str = "small") -> QLabel:
    label = QLabel(text)
    label.setProperty("kind", kind)
    label.setWordWrap(True)
    return label


_OF_PRETENDED = (PRETENDED, WeightsMissing.code)  # refusals that are not about memory


class PlanCard(QFrame):
    """Shows one plan; everything in it comes from the engine's prediction."""

    action_requested = Signal(str)  # what MainWindow.do takes
    choices_requested = Signal(dict)  # settings by name, that a refusal offers

    def __init__(self, downloads: DownloadsModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("kind", "card")
        self.setObjectName("planCard")
        self._downloads = downloads
        self._row: JobRow | None = None
        self._icon, self._head, self._limit = QLabel(), QLabel(), QLabel()
        self._head.setObjectName("planHead")
        self._limit.setProperty("kind", "secondary")
        self._planned_for = QLabel()
        self._planned_for.setObjectName("plannedFor")
        self._planned_for.setProperty("kind", "planned")
        self._planned_for.setWordWrap(True)
        self._bars = MemoryBars()
        self._figures = [_Figure() for _ in range(3)]
        self._guess = QPushButton()
        self._guess.setObjectName("speedTest")
        self._guess.setProperty("kind", "link")
        self._notes = PlanNotices(downloads)
        self._why = WhyFold()
        self._notes.action_requested.connect(self.action_requested)
        self._notes.choices_requested.connect(self.choices_requested)
        self._guess.clicked.connect(lambda: self.action_requested.emit("bench"))
        self._lay_out()

    def show_job(self, row: JobRow) -> None:
        """Show the plan of a job."""
        if row.plan is None:
            return
        self._row = row
        self._show_head(row)
        self._bars.show_plan(row.plan)
        downloads = self._downloads
        self._bars.setVisible(row.job_id not in (*downloads.films, *downloads.failures))  # for room
        self._show_figures(row)
        self._notes.show_job(row)
        self._why.show_plan(row.plan)

    def unfold(self) -> None:
        """Show why the plan is so."""
        self._why.unfold()

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
        rule = QFrame()
        rule.setProperty("kind", "rule")
        figures = QHBoxLayout()
        for figure in self._figures:
            figures.addWidget(figure)
        figures.setSpacing(14)
        foot = QVBoxLayout()
        foot.setSpacing(0)
        foot.addLayout(figures)
        foot.addWidget(self._guess)
        foot.addWidget(self._why)
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 12, 14, 10)
        column.setSpacing(8)
        column.addLayout(head)
        column.addWidget(self._planned_for)
        column.addWidget(self._bars)
        column.addWidget(self._notes)
        column.addWidget(rule)
        column.addLayout(foot)

    def _show_head(self, row: JobRow) -> None:
        plan = row.plan
        assert plan is not None
        expected = _OF_PRETENDED if plan.is_pretended else ()
        refused = any(n.severity == "refusal" and n.code not in expected for n in plan.notices)
        if can_download(row):
            is_coming = row.job_id in self._downloads.films
            text = tr("Being downloaded") if is_coming else tr("Needs a download")
            icon, severity = "download", "info"
        elif refused:
            text, icon, severity = tr("This cannot start"), "error", "refusal"
        else:
            text = tr("It would fit") if plan.is_pretended else tr("It fits")
            icon, severity = "check", "good"
        self._icon.setPixmap(pixmap(icon, colour_of(severity), 18))
        self._head.setText(text)
        kinds = {"refusal": "error", "info": "strong", "good": "good"}
        self._head.setProperty("kind", kinds[severity])
        self._head.style().polish(self._head)
        self._limit.setText(tr("limit {size}", size=memory_text(limit_of(plan))))
        self._planned_for.setVisible(plan.is_pretended)
        self._planned_for.setText(tr("Planned for {gpu}: not in this machine", gpu=plan.card))

    def _show_figures(self, row: JobRow) -> None:
        plan = row.plan
        assert plan is not None
        time, file, free = self._figures
        caption = tr("time, measured") if plan.is_measured else tr("time, estimated")
        time.show_text(labels.expected(plan), caption)
        file.show_text(bytes_text(plan.output_bytes), tr("file"))
        drive = plan.output.drive
        where = tr("free on {drive}", drive=drive) if drive else tr("free on disk")
        free.show_text(bytes_text(plan.free_disk_bytes), where)
        on_gpu = plan.work.device == "cuda"
        self._guess.setText(
            tr("Not measured on this GPU: run the speed test")
            if on_gpu
            else tr("Not measured here: run the speed test")
        )
        can_be_measured = not plan.is_measured and not plan.is_pretended
        may_start = row.state.can_change and not can_download(row)
        self._guess.setVisible(can_be_measured and may_start)


class _Figure(QWidget):
    """A number and, below it, what it counts."""

    def __init__(self) -> None:
        super().__init__()
        self._figure, self._unit = QLabel(), QLabel()
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
