"""The list of cards, and the column around it: heading, unfinished jobs, drop zone."""

from __future__ import annotations

from PySide6.QtCore import QItemSelectionModel, QPoint, QSize, Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QAbstractItemView, QFrame, QListView, QMenu, QSizePolicy, QWidget

from app.i18n import tr
from app.jobs.job_card import JobCard
from app.state.job_row import JobRow
from app.state.queue_model import JOB_ROLE, QueueModel


class QueueView(QListView):
    """Cards of all jobs; as high as its cards, so that the drop zone follows the last one."""

    selected = Signal(str)  # job_id, "" when nothing is
    open_wanted = Signal(str)  # job_id

    def __init__(self, model: QueueModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("queueView")
        self._model = model
        self._card = JobCard(self)
        self._actions: list[QAction | None] = []
        self.setModel(model)
        self.setItemDelegate(self._card)
        self.setMouseTracking(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Maximum)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(self._show_menu)
        self.doubleClicked.connect(lambda index: self._open(index.data(JOB_ROLE)))
        self._card.open_wanted.connect(self.open_wanted)
        self.selectionModel().currentChanged.connect(self._tell_selection)
        model.queue_changed.connect(self._fit)

    @property
    def selected_row(self) -> JobRow | None:
        """The job whose card is taken."""
        index = self.currentIndex()
        return index.data(JOB_ROLE) if index.isValid() else None

    def select(self, job_id: str) -> None:
        """Take the card of a job."""
        index = self._model.index(self._model.position(job_id))
        flags = QItemSelectionModel.SelectionFlag.ClearAndSelect
        self.selectionModel().setCurrentIndex(index, flags)

    def set_menu(self, actions: list[QAction | None]) -> None:
        """What the context menu offers; None is a line between two groups."""
        self._actions = actions

    def sizeHint(self) -> QSize:
        """As high as all cards together."""
        height = sum(self.sizeHintForRow(row) for row in range(self._model.rowCount()))
        return QSize(240, height)

    def minimumSizeHint(self) -> QSize:
        """At least one card stays visible."""
        return QSize(200, min(self.sizeHint().height(), 108))

    def _fit(self) -> None:
        self.setVisible(self._model.rowCount() > 0)
        self.scheduleDelayedItemsLayout()
        self.updateGeometry()

    def _tell_selection(self) -> None:
        row = self.selected_row
        self.selected.emit(row.job_id if row is not None else "")

    def _open(self, row: JobRow) -> None:
        if row.result is not None:
            self.open_wanted.emit(row.job_id)

    def _show_menu(self, place: QPoint) -> None:
        if not self.indexAt(place).isValid():
            return
        menu = QMenu(self)
        menu.setAccessibleName(tr("What can be done with this film"))
        for action in self._actions:
            if action is None:
                menu.addSeparator()
            else:
                menu.addAction(action)
        menu.exec(self.viewport().mapToGlobal(place))
        menu.deleteLater()
