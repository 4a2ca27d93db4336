"""The page of NVIDIA runtimes: which torch is in use and why, the others, files, removal."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QDialog,
    QFrame,
    QHBoxLayout,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.engine_messages import text
from app.i18n import tr
from app.installs import runtime_labels
from app.installs.runtime_row import GAP, RuntimeRow
from app.state.runtimes_model import RuntimesModel, Situation, find
from app.state.tasks_model import TaskState
from app.theme.icons import icon
from app.widgets.controls import Themed
from app.widgets.layouts import clear_layout
from app.widgets.notice_line import NoticeLine, PageLine
from app.widgets.plain import Label
from engine.core.units import bytes_text
from engine.protocol.runtime_state import RuntimeState


class RuntimeView(Themed, QDialog):
    """Shows the model; emits requests of the user. Stays open while films run."""

    requested = Signal(str, str)  # a button of a row; id of the runtime, "" for the program's own
    file_requested = Signal()
    look_requested = Signal()
    restart_requested = Signal()

    def __init__(self, model: RuntimesModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("runtimeDialog")
        self.setMinimumSize(720, 420)
        self.resize(880, 540)
        self._model = model
        self._ids: tuple[str, ...] | None = None
        self._rows: dict[str, RuntimeRow] = {}
        self._title, self._room, self._lead, self._foot = (Label() for _ in range(4))
        self._now, self._trouble = NoticeLine(), NoticeLine()
        self._now.setObjectName("runtimeNow")
        self._trouble.setObjectName("runtimeTrouble")
        self._file, self._again, self._restart, self._close = (QPushButton() for _ in range(4))
        self._file.setObjectName("runtimeFile")
        self._again.setObjectName("runtimeLook")
        self._restart.setObjectName("runtimeRestart")
        self._close.setObjectName("closeRuntimes")
        self._close.setDefault(True)  # else Enter would press the first button: gigabytes
        self._list = QFrame()
        self._list.setProperty("kind", "card")
        self._lay_out()
        self._file.clicked.connect(self.file_requested)
        self._again.clicked.connect(self.look_requested)
        self._restart.clicked.connect(self.restart_requested)
        self._close.clicked.connect(self.close)
        model.changed.connect(self._show)
        model.progressed.connect(self._show_progress)
        self.retranslate_ui()

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        self.setWindowTitle(tr("NVIDIA runtime"))
        self._title.setText(tr("NVIDIA runtime"))
        self._scroll.setAccessibleName(tr("NVIDIA runtime"))
        self._lead.setText(
            tr(
                "The NVIDIA runtime lets Upreel run on the GPU; without it, Upreel runs on the "
                "CPU. It is the official PyTorch build for NVIDIA GPUs and is used only if its "
                "checksum matches the published one."
            )
        )
        self._foot.setText(
            tr(
                'Without internet access, download the file on another computer and choose "From '
                'a file …". A runtime in use can be removed after Upreel has been started '
                "without it."
            )
        )
        self._file.setText(tr("From a file …"))
        self._file.setIcon(icon("folder", size=16))
        self._again.setText(tr("Refresh"))
        self._again.setIcon(icon("retry", size=16))
        self._restart.setText(tr("Restart now"))
        self._close.setText(tr("Close"))
        self._show()

    # Showing

    def _show(self) -> None:
        model, listed = self._model, self._model.listed
        free = bytes_text(listed.free_mb * 1e6) if listed is not None else ""
        self._room.setText(tr("{size} free on disk", size=free) if free else "")
        self._file.setVisible(listed is not None and bool(listed.card))
        self._file.setEnabled(not model.is_running)
        self._restart.setVisible(self._needs_restart())
        self._show_now()
        self._show_trouble()
        shown = (runtime_labels.own(model), *model.runtimes) if listed is not None else ()
        self._list.setVisible(bool(shown))
        ids = tuple(state.id for state in shown)
        if ids != self._ids:
            self._build(ids)
        for state in shown:
            task = self._task_of(state)
            self._rows[state.id].show_state(state, task, is_idle=not model.is_running)

    def _needs_restart(self) -> bool:
        status = self._model.status
        about = status.runtime
        is_broken = status.situation is Situation.BROKEN and about is not None and about.is_used
        return status.situation is Situation.READY or is_broken

    def _show_now(self) -> None:
        now = runtime_labels.in_use(self._model)
        self._now.show_message(now.severity, now.title, now.text)

    def _show_trouble(self) -> None:
        """Messages that concern no row: an import that fails or runs, good news."""
        model, task = self._model, self._model.task
        about = find(model.listed, task.subject) if task is not None else None
        has_own_line = task is not None and about is None
        self._trouble.setVisible(has_own_line or model.done is not None)
        if has_own_line:
            message = runtime_labels.message(model)
            self._trouble.show_message(message.severity, message.title, message.text)
        elif model.done is not None:
            self._trouble.show_message("good", text(model.done))

    def _task_of(self, state: RuntimeState) -> TaskState | None:
        task = self._model.task
        return task if task is not None and task.subject == state.id else None

    def _show_progress(self, _runtime: str = "") -> None:
        """Only what the progress changes."""
        task = self._model.task
        row = self._rows.get(task.subject) if task is not None else None
        if row is not None:
            row.show_progress(task)
        else:
            self._show_trouble()

    def _build(self, ids: tuple[str, ...]) -> None:
        """New rows: the engine knows other runtimes than before."""
        self._ids = ids
        clear_layout(self._inside)
        self._rows = {}
        for name in ids:
            if self._rows:
                rule = QFrame()
                rule.setProperty("kind", "rule")
                self._inside.addWidget(rule)
            row = self._rows[name] = RuntimeRow(name)
            row.requested.connect(self.requested)
            self._inside.addWidget(row)

    def _lay_out(self) -> None:
        self._title.setProperty("kind", "headline")
        for label in (self._room, self._lead, self._foot):
            label.setProperty("kind", "secondary")
        for label in (self._lead, self._foot):
            label.setWordWrap(True)
        head = QHBoxLayout()
        head.setSpacing(GAP)
        head.addWidget(self._title)
        head.addWidget(self._room, 0, Qt.AlignmentFlag.AlignBottom)
        head.addStretch(1)
        head.addWidget(self._again)
        head.addWidget(self._file)
        self._inside = QVBoxLayout(self._list)
        self._inside.setContentsMargins(0, 2, 0, 2)
        self._inside.setSpacing(0)
        scrolled = QWidget()
        scrolled.setObjectName("scrolled")
        inner = QVBoxLayout(scrolled)
        inner.setContentsMargins(0, 0, 12, 0)
        inner.setSpacing(GAP)
        inner.addWidget(self._list)
        inner.addStretch(1)
        self._scroll = QScrollArea()
        self._scroll.setWidgetResizable(True)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setWidget(scrolled)
        foot = QHBoxLayout()
        foot.setSpacing(GAP)
        foot.addWidget(self._foot, 1)
        foot.addWidget(self._restart, 0, Qt.AlignmentFlag.AlignBottom)
        foot.addWidget(self._close, 0, Qt.AlignmentFlag.AlignBottom)
        column = QVBoxLayout(self)
        column.setContentsMargins(20, 16, 20, 16)
        column.setSpacing(10)
        column.addLayout(head)
        for part in (self._lead, self._now, self._trouble):
            column.addWidget(part)
        column.addWidget(self._scroll, 1)
        column.addLayout(foot)
        self._scroll.setFocus(Qt.FocusReason.OtherFocusReason)  # no focus ring before the first tab


class RuntimeLine(PageLine):
    """The line among the settings: which runtime is in use and why, and the way to the page."""

    def __init__(self, model: RuntimesModel, parent: QWidget | None = None) -> None:
        super().__init__("runtime", parent)
        self._model = model
        model.changed.connect(self.retranslate_ui)
        self.retranslate_ui()

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        self.name.setText(tr("NVIDIA runtime"))
        self.explanation.setText(runtime_labels.summary(self._model))
        self.button.setText(tr("Show …"))
        self.button.setAccessibleName(tr("{text}: NVIDIA runtime", text=tr("Show …")))
