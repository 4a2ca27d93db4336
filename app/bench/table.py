"""The table of optimisations: measured effect of each, next to the claims of documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import (
    QAbstractTableModel,
    QEvent,
    QModelIndex,
    QPersistentModelIndex,
    QRect,
    QRectF,
    QSize,
    QSortFilterProxyModel,
    Qt,
)
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import (
    QHeaderView,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from app import engine_messages
from app.engine_messages import text
from app.i18n import mark, tr
from app.theme import tokens
from app.widgets.plain import tip
from engine.core.messages import catalogue, message
from engine.protocol.report import MeasuredSwitch
from engine.settings.optimisations import ALL

RATIO_ROLE = Qt.ItemDataRole.UserRole + 1  # float: with it over without it; None where not measured
CALM_ROLE = Qt.ItemDataRole.UserRole + 2  # float: a ratio this near to 1 is noise
Index = QModelIndex | QPersistentModelIndex
_TOP = QModelIndex()
_FULL = 0.5  # of a ratio: a bar this far from 1 is as long as it gets
_MARGIN = 20  # px of a cell without text
_CALM = 0.02  # of ratios with a smaller or unknown scatter
_EXACTNESS = {
    "exact": mark("exact"),
    "rounding": mark("rounding"),
    "near-exact": mark("rounding"),
    "inexact": mark("inexact"),
}
_HEADS = (
    mark("Optimisation"),
    mark("Default"),
    mark("Result"),
    mark("Time"),
    mark("Memory"),
    mark("Error"),
    mark("Claimed"),
    mark("Note"),
)
_WIDTHS = (220, 72, 80, 156, 124, 70, 128, 160)  # px; the last one takes what is left
_TIME, _MEMORY = 3, 4  # columns with bars
_TEXT = {_TIME: 92, _MEMORY: 62}  # px of those columns that hold figures
_TIPS = {
    2: mark("Exact: the same result except for rounding. Inexact: the result differs."),
    3: mark("Time when on, relative to off; lower is faster"),
    4: mark("Peak memory when on, relative to off"),
    5: mark("Error of the result compared with float64"),
    6: mark("Claims by others, not measured on this computer"),
}


class SwitchesModel(QAbstractTableModel):
    """One row for each measured switch."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rows: tuple[MeasuredSwitch, ...] = ()

    def show(self, rows: Sequence[MeasuredSwitch]) -> None:
        """Another report."""
        self.beginResetModel()
        self._rows = tuple(rows)
        self.endResetModel()

    def rowCount(self, parent: Index = _TOP) -> int:
        """Number of switches."""
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index = _TOP) -> int:
        """Number of columns."""
        return 0 if parent.isValid() else len(_HEADS)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """Texts, ratios and tool tips."""
        if not index.isValid():
            return None
        row, column = self._rows[index.row()], index.column()
        if role == Qt.ItemDataRole.DisplayRole:
            return _COLUMNS[column](row)
        if role == RATIO_ROLE:
            return {_TIME: row.time, _MEMORY: row.memory}.get(column)
        if role == CALM_ROLE:
            return _CALM if column != _TIME or row.scatter is None else max(_CALM, 2 * row.scatter)
        if role == Qt.ItemDataRole.ToolTipRole:
            return tip(_tip(row, column))
        return None

    def words(self, row: int) -> str:
        """All texts of a row and its name, in lower case."""
        found = self._rows[row]
        return " ".join((found.name, *(column(found) for column in _COLUMNS))).casefold()

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> object:
        """Names of the columns."""
        if orientation is not Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return tr(_HEADS[section])
        if role == Qt.ItemDataRole.ToolTipRole:
            return tr(_TIPS[section]) if section in _TIPS else None
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        return None


class _Filtered(QSortFilterProxyModel):
    """Rows whose texts have every word that is looked for."""

    def __init__(self, model: SwitchesModel, parent: QWidget) -> None:
        super().__init__(parent)
        self._model = model
        self._wanted: list[str] = []
        self.setSourceModel(model)

    def look_for(self, text: str) -> None:
        """Show rows with all words of a text; every row for ""."""
        self._wanted = text.casefold().split()
        self.invalidate()

    def filterAcceptsRow(self, row: int, _parent: Index) -> bool:
        words = self._model.words(row)
        return all(word in words for word in self._wanted)


class SwitchesTable(QTableView):
    """Shows the model; arrow keys move by rows."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("benchTable")
        self.switches = SwitchesModel(self)
        self._filtered = _Filtered(self.switches, self)
        self.setModel(self._filtered)
        self.setItemDelegate(_Cell(self))
        self.setShowGrid(False)
        self.setWordWrap(True)
        self.setSelectionBehavior(QTableView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QTableView.SelectionMode.SingleSelection)
        self.setEditTriggers(QTableView.EditTrigger.NoEditTriggers)
        self.setVerticalScrollMode(QTableView.ScrollMode.ScrollPerPixel)
        self.setTabKeyNavigation(False)
        self.verticalHeader().setVisible(False)
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        heads = self.horizontalHeader()
        heads.setHighlightSections(False)
        heads.setStretchLastSection(True)
        for column, width in enumerate(_WIDTHS):
            self.setColumnWidth(column, width)
        heads.sectionResized.connect(lambda *_: self.resizeRowsToContents())

    def show_switches(self, rows: Sequence[MeasuredSwitch]) -> None:
        """Another report."""
        self.switches.show(rows)

    def look_for(self, text: str) -> tuple[int, int]:
        """Show the rows with all words of a text; how many these are, and of how many."""
        self._filtered.look_for(text)
        return self._filtered.rowCount(), self.switches.rowCount()

    def changeEvent(self, event: QEvent) -> None:
        """Follow the language."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.LanguageChange:
            last = self.switches.columnCount() - 1
            self.switches.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, last)
            self.viewport().update()


class _Cell(QStyledItemDelegate):
    """Draws a ratio as a bar from the middle, to the left where it saves."""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        """Returns the height of its text in the width of the column."""
        table = self.parent()
        width = table.columnWidth(index.column()) if isinstance(table, QTableView) else 0
        room = QRect(0, 0, max(40, width - _MARGIN), 10_000)
        text = str(index.data() or "")
        text_box = option.fontMetrics.boundingRect(room, int(Qt.TextFlag.TextWordWrap), text)
        return QSize(width, text_box.height() + _MARGIN)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        super().paint(painter, option, index)
        ratio = index.data(RATIO_ROLE)
        if isinstance(ratio, float):
            place = QRectF(option.rect).adjusted(_TEXT[index.column()], 0, -10, 0)
            _paint_ratio(painter, place, ratio, index.data(CALM_ROLE))


def _paint_ratio(painter: QPainter, place: QRectF, ratio: float, calm: float) -> None:
    theme = tokens.current()
    painter.save()
    painter.setPen(Qt.PenStyle.NoPen)
    middle, top = place.center().x(), place.center().y() - 3
    painter.setBrush(QColor(theme.surface_3))
    painter.drawRect(QRectF(place.left(), top + 2, place.width(), 2))
    share = max(-1.0, min(1.0, (ratio - 1) / _FULL))
    length = share * place.width() / 2
    is_noise = abs(ratio - 1) <= calm
    colour = theme.text_2 if is_noise else theme.accent if ratio < 1 else theme.warning
    painter.setBrush(QColor(colour))
    painter.drawRect(QRectF(min(middle, middle + length), top, max(2.0, abs(length)), 6))
    painter.setBrush(QColor(theme.text_2))
    painter.drawRect(QRectF(middle - 0.5, top - 3, 1, 12))
    painter.restore()


def percent(ratio: float | None, scatter: float | None = None) -> str:
    """A ratio as a change: "−18 %", "+3 ± 2 %", "±0 %"; a dash where nothing was measured."""
    if ratio is None:
        return "–"
    change = round(100 * (ratio - 1))
    off = f" ± {round(100 * scatter)}" if scatter is not None and scatter >= 0.005 else ""
    sign = "−" if change < 0 else "+" if change > 0 else "" if off else "±"
    return f"{sign}{abs(change)}{off} %"


def _tip(row: MeasuredSwitch, column: int) -> str:
    ratio = {_TIME: row.time, _MEMORY: row.memory}.get(column)
    if ratio is not None:
        return tr("{ratio}× when on, relative to off", ratio=f"{ratio:.3f}")
    if column == 0:
        return "\n".join(filter(None, (row.name, *_about(row))))
    if column == 5 and row.error_without is not None:
        return tr("{error} when off", error=_error(row.error_without))
    return str(_COLUMNS[column](row))


def _title(row: MeasuredSwitch) -> str:
    """The group, then the title; one title may stand for two models."""
    if not row.exactness:
        return text(row.title)
    group, _, field = row.name.partition(".")
    name = tr("all combined") if field == ALL else text(row.title)
    return f"{engine_messages.title(f'switch.{group}')} · {name}"


def _about(row: MeasuredSwitch) -> tuple[str, str]:
    """Describes a switch and its default; empty where it is no switch."""
    entry = message(f"switch.{row.name.partition('=')[0]}")
    return (text(entry), text(entry.hint)) if catalogue("en").has_text(entry.code) else ("", "")


def _error(value: float) -> str:
    return f"{value:.0e}".replace("e-0", "e-") if value else "0"


_COLUMNS: tuple[Callable[[MeasuredSwitch], str], ...] = (
    _title,
    lambda row: "–" if not row.exactness else tr("on") if row.is_default else tr("off"),
    lambda row: tr(_EXACTNESS.get(row.exactness, row.exactness)) if row.exactness else "–",
    lambda row: percent(row.time, row.scatter),
    lambda row: percent(row.memory),
    lambda row: "–" if row.error is None else _error(row.error),
    lambda row: "–" if row.claim is None else text(row.claim),
    lambda row: "" if row.note is None else text(row.note),
)
