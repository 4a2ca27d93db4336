"""The queue as a list of job cards, and the delegate that draws them."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import (
    QEvent,
    QItemSelectionModel,
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    QRect,
    QRectF,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QAction,
    QColor,
    QDropEvent,
    QFont,
    QFontMetrics,
    QImage,
    QMouseEvent,
    QPainter,
    QPainterPath,
    QPen,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QListView,
    QMenu,
    QSizePolicy,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from app import labels
from app.i18n import tr
from app.state.job_row import JobRow, JobState
from app.state.queue_model import JOB_ROLE, QueueModel
from app.theme import tokens
from app.theme.fonts import interface_font
from app.theme.icons import pixmap

SCROLL_BAR = 10  # px, by the style sheet
_LINE = 18
_BAR = 4
Index = QModelIndex | QPersistentModelIndex


@dataclass(frozen=True, slots=True)
class _Measures:
    """Lengths of a card, px."""

    gap: int  # below the card
    padding: int
    thumbnail: QSize
    is_compact: bool = False  # without the sizes, and with the state beside the thumbnail

    @property
    def bar(self) -> int:
        """Height of the progress bar and of the gap above it."""
        return _BAR + (4 if self.is_compact else 8)

    def height(self, *, has_bar: bool) -> int:
        """Height of a card and the gap below it."""
        state = 0 if self.is_compact else 8 + _LINE
        bar = self.bar if has_bar else 0
        return 2 * self.padding + self.thumbnail.height() + state + bar + self.gap

    def inner(self, place: QRect) -> QRect:
        """The part of a card that is drawn in."""
        card = place.adjusted(1, 1, -1, -self.gap - 1)
        return card.adjusted(self.padding, self.padding, -self.padding, -self.padding)

    def text(self, inner: QRect) -> QRect:
        """The part beside the thumbnail."""
        return inner.adjusted(self.thumbnail.width() + 10, 0, 0, 0)

    def state_line(self, inner: QRect) -> QRect:
        """The last line, below or beside the thumbnail."""
        if self.is_compact:
            text = self.text(inner)
            return QRect(text.left(), text.top() + _LINE, text.width(), _LINE)
        return QRect(inner.left(), inner.bottom() - _LINE + 1, inner.width(), _LINE)


_FEW = _Measures(gap=8, padding=10, thumbnail=QSize(84, 48))
_MANY = _Measures(gap=4, padding=6, thumbnail=QSize(62, 36), is_compact=True)
_MANY_FROM = 8  # videos


def _measures(index: Index) -> _Measures:
    return _MANY if index.model().rowCount() >= _MANY_FROM else _FEW


@dataclass(frozen=True, slots=True)
class _Look:
    colour: str
    icon: str


class JobCard(QStyledItemDelegate):
    """The delegate of the queue; from eight videos on its cards are low."""

    open_requested = Signal(str)  # job_id; its link was clicked

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        """Height of a card and the gap below it."""
        return QSize(200, _measures(index).height(has_bar=_has_bar(index.data(JOB_ROLE))))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw the card."""
        row: JobRow = index.data(JOB_ROLE)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        measures = _measures(index)
        _paint_frame(painter, option.rect.adjusted(1, 1, -1, -measures.gap - 1), option)
        inner, thumbnail = measures.inner(option.rect), measures.thumbnail
        _paint_thumbnail(painter, QRect(inner.topLeft(), thumbnail), row)
        _paint_title(painter, measures.text(inner), row, has_sizes=not measures.is_compact)
        if _has_bar(row):
            top = inner.top() + thumbnail.height() + measures.bar - _BAR
            _paint_bar(painter, QRect(inner.left(), top, inner.width(), _BAR), row)
        self._paint_state(painter, measures.state_line(inner), row)
        painter.restore()

    def editorEvent(
        self, event: QEvent, model: object, option: QStyleOptionViewItem, index: Index
    ) -> bool:
        """A click on "Open" of a finished card."""
        if event.type() == QEvent.Type.MouseButtonRelease and isinstance(event, QMouseEvent):
            row: JobRow = index.data(JOB_ROLE)
            line = _measures(index).state_line(_measures(index).inner(option.rect))
            if _has_link(row) and _link(line).contains(event.position().toPoint()):
                self.open_requested.emit(row.job_id)
                return True
        return False

    def _paint_state(self, painter: QPainter, line: QRect, row: JobRow) -> None:
        theme = tokens.current()
        look = _look(row)
        painter.setFont(interface_font(tokens.SMALL_PX))
        metrics = painter.fontMetrics()
        right = tr("Open") if _has_link(row) else labels.remaining(row)
        right_width = metrics.horizontalAdvance(right) + 8 if right else 0
        left = line
        if look.icon:
            top = line.top() + (line.height() - 14) // 2
            painter.drawPixmap(line.left(), top, pixmap(look.icon, look.colour, 14))
            left = line.adjusted(19, 0, 0, 0)
        left = left.adjusted(0, 0, -right_width, 0)
        painter.setPen(QColor(look.colour))
        elide = Qt.TextElideMode.ElideRight
        words = metrics.elidedText(labels.state(row), elide, left.width())
        painter.drawText(left, int(Qt.AlignmentFlag.AlignVCenter), words)
        painter.setPen(QColor(theme.text_1 if _has_link(row) else theme.text_2))
        flags = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
        painter.drawText(line, int(flags), right)


def _look(row: JobRow) -> _Look:
    theme = tokens.current()
    match row.state:
        case JobState.RUNNING:
            return _Look(theme.accent, "")
        case JobState.PAUSED:
            return _Look(theme.warning, "pause")
        case JobState.DONE:
            if row.lost is not None or (row.report is not None and not row.report.passed):
                return _Look(theme.warning, "warning")
            return _Look(theme.accent, "check")
        case JobState.FAILED | JobState.REJECTED:
            return _Look(theme.error, "error")
        case JobState.WAITING if row.is_refused and row.is_downloading:
            return _Look(theme.information, "download")
        case JobState.WAITING if row.is_refused:
            return _Look(theme.warning, "warning")
        case JobState.WAITING:
            return _Look(theme.information, "")
    return _Look(theme.text_2, "")


def _has_bar(row: JobRow) -> bool:
    return row.state.is_active or (row.state is JobState.CANCELLED and row.done > 0)


def _has_link(row: JobRow) -> bool:
    return row.result is not None and row.lost is None


def _link(line: QRect) -> QRect:
    """Place of "Open" at the end of the last line."""
    width = QFontMetrics(interface_font(tokens.SMALL_PX)).horizontalAdvance(tr("Open"))
    return QRect(line.right() - width - 6, line.top() - 4, width + 12, line.height() + 8)


def _paint_frame(painter: QPainter, card: QRect, option: QStyleOptionViewItem) -> None:
    theme = tokens.current()
    selected = bool(option.state & QStyle.StateFlag.State_Selected)
    hovered = bool(option.state & QStyle.StateFlag.State_MouseOver)
    focused = selected and bool(option.state & QStyle.StateFlag.State_HasFocus)
    fill = theme.hovered if hovered else theme.surface_2
    painter.setBrush(QColor(fill))
    painter.setPen(QPen(QColor(theme.accent if selected else theme.surface_2), 2 if focused else 1))
    radius = tokens.CARD_RADIUS - 2
    painter.drawRoundedRect(QRectF(card).adjusted(0.5, 0.5, -0.5, -0.5), radius, radius)


def _paint_thumbnail(painter: QPainter, place: QRect, row: JobRow) -> None:
    theme = tokens.current()
    path = QPainterPath()
    path.addRoundedRect(QRectF(place), 5, 5)
    painter.save()
    painter.setClipPath(path)
    painter.fillRect(place, QColor(theme.surface_3))
    if row.thumbnail is not None:
        painter.drawImage(QRectF(place), row.thumbnail, _middle_part(row.thumbnail, place.size()))
    else:
        mark = pixmap("film", theme.text_2, 20)
        painter.drawPixmap(place.center().x() - 9, place.center().y() - 9, mark)
    painter.restore()


def _middle_part(image: QImage, place: QSize) -> QRectF:
    """The part of a picture that fills `place` without being squeezed."""
    requested = place.width() / place.height()
    width, height = float(image.width()), float(image.height())
    if width / height > requested:
        width = height * requested
    else:
        height = width / requested
    return QRectF((image.width() - width) / 2, (image.height() - height) / 2, width, height)


def _paint_title(painter: QPainter, place: QRect, row: JobRow, *, has_sizes: bool) -> None:
    theme = tokens.current()
    painter.setFont(interface_font(tokens.BODY_PX, QFont.Weight.DemiBold))
    painter.setPen(QColor(theme.text_1))
    name = painter.fontMetrics().elidedText(row.name, Qt.TextElideMode.ElideMiddle, place.width())
    line = QRect(place.left(), place.top() + (4 if has_sizes else 0), place.width(), _LINE)
    painter.drawText(line, int(Qt.AlignmentFlag.AlignVCenter), name)
    if not has_sizes:
        return
    painter.setFont(interface_font(tokens.SMALL_PX))
    painter.setPen(QColor(theme.text_2))
    sizes = painter.fontMetrics().elidedText(
        labels.from_to(row), Qt.TextElideMode.ElideRight, place.width()
    )
    painter.drawText(line.translated(0, 20), int(Qt.AlignmentFlag.AlignVCenter), sizes)


def _paint_bar(painter: QPainter, place: QRect, row: JobRow) -> None:
    theme = tokens.current()
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(theme.surface_3))
    painter.drawRoundedRect(place, 2, 2)
    if row.share > 0:
        filled = QRectF(place)
        filled.setWidth(max(4.0, place.width() * row.share))
        running = row.state is JobState.RUNNING
        painter.setBrush(QColor(theme.accent if running else theme.text_2))
        painter.drawRoundedRect(filled, 2, 2)


class QueueView(QListView):
    """Cards of all jobs; as high as its cards, so that the drop zone follows the last one."""

    selected = Signal(str)  # job_id, "" when nothing is
    open_requested = Signal(str)  # job_id
    selection_changed = Signal()
    reordered = Signal(list, int)  # job_ids; the row in front of which they shall be

    def __init__(self, model: QueueModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("queueView")
        self._model = model
        self._card = JobCard(self)
        self._actions: list[QAction | None] = []
        self.setModel(model)
        self.setItemDelegate(self._card)
        self.setMouseTracking(True)
        model.rowsMoved.connect(lambda: self.scrollTo(self.currentIndex()))
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setDragDropMode(QAbstractItemView.DragDropMode.InternalMove)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Maximum)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(self._show_menu)
        self.doubleClicked.connect(lambda index: self._open(index.data(JOB_ROLE)))
        self._card.open_requested.connect(self.open_requested)
        self.selectionModel().currentChanged.connect(self._report_selection)
        self.selectionModel().selectionChanged.connect(lambda *_: self.selection_changed.emit())
        model.queue_changed.connect(self._fit)
        self.verticalScrollBar().rangeChanged.connect(self._keep_width)
        self._keep_width(0, 0)

    @property
    def selected_row(self) -> JobRow | None:
        """The selected job."""
        index = self.currentIndex()
        return index.data(JOB_ROLE) if index.isValid() else None

    @property
    def selected_ids(self) -> list[str]:
        """Names of all selected jobs, in the order of the queue."""
        indexes = sorted(self.selectedIndexes(), key=lambda index: index.row())
        return [index.data(JOB_ROLE).job_id for index in indexes]

    def select(self, job_id: str) -> None:
        """Select a job."""
        index = self._model.index(self._model.position(job_id))
        flags = QItemSelectionModel.SelectionFlag.ClearAndSelect
        self.selectionModel().setCurrentIndex(index, flags)

    def set_menu(self, actions: list[QAction | None]) -> None:
        """Actions of the context menu; None is a line between two groups."""
        self._actions = actions

    def sizeHint(self) -> QSize:
        """Height of all cards together."""
        return QSize(240, self._height_of(self._model.rowCount()))

    def minimumSizeHint(self) -> QSize:
        """Size with at least one visible card."""
        return QSize(200, min(self._height_of(min(self._model.rowCount(), 2)), 108))

    def dropEvent(self, event: QDropEvent) -> None:
        """The end of a drag of cards: the model is changed by whoever hears of it."""
        place = event.position().toPoint()
        index = self.indexAt(place)
        before = self._model.rowCount()
        if index.isValid():
            before = index.row() + (place.y() > self.visualRect(index).center().y())
        event.accept()
        self.reordered.emit(self.selected_ids, before)

    def _height_of(self, cards: int) -> int:
        return sum(self.sizeHintForRow(row) for row in range(cards))

    def _fit(self) -> None:
        self.setVisible(self._model.rowCount() > 0)
        self.scheduleDelayedItemsLayout()
        self.updateGeometry()

    def _keep_width(self, _least: int, most: int) -> None:
        """Leave the scroll bar its place while there is none: cards do not change their width."""
        self.setViewportMargins(0, 0, 0 if most else SCROLL_BAR, 0)

    def _report_selection(self) -> None:
        row = self.selected_row
        self.selected.emit(row.job_id if row is not None else "")

    def _open(self, row: JobRow) -> None:
        if row.result is not None:
            self.open_requested.emit(row.job_id)

    def _show_menu(self, place: QPoint) -> None:
        if not self.indexAt(place).isValid():
            return
        menu = QMenu(self)
        menu.setAccessibleName(tr("Actions for this video"))
        for action in self._actions:
            if action is None:
                menu.addSeparator()
            else:
                menu.addAction(action)
        menu.exec(self.viewport().mapToGlobal(place))
        menu.deleteLater()
