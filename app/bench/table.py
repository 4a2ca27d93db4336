"""The table of optimisations: measured effect of each, next to the claims of documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import (
    QEvent,
    QModelIndex,
    QPersistentModelIndex,
    QRect,
    QRectF,
    QRegularExpression,
    QSize,
    QSortFilterProxyModel,
    Qt,
)
from PySide6.QtGui import QColor, QPainter, QStandardItem, QStandardItemModel
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
from app.widgets.plain import set_tip
from engine.core.messages import has_text, message
from engine.protocol.report import MeasuredSwitch
from engine.settings.optimisations import ALL

_RATIO_ROLE = (
    Qt.ItemDataRole.UserRole + 1
)  # float: with it over without it; None where not measured
CALM_ROLE = Qt.ItemDataRole.UserRole + 2  # float: a ratio this near to 1 is noise
_WORDS_ROLE = Qt.ItemDataRole.UserRole + 3  # str: all that can be looked for in a row
Index = QModelIndex | QPersistentModelIndex
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
    6: mark("Claims by others and their state; not measured on this computer"),
}


class SwitchesTable(QTableView):
    """A row for each measured switch; arrow keys move by rows."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("benchTable")
        self._rows: tuple[MeasuredSwitch, ...] = ()
        self._items = QStandardItemModel(0, len(_HEADS), self)
        self._filtered = QSortFilterProxyModel(self)
        self._filtered.setSourceModel(self._items)
        self._filtered.setFilterRole(_WORDS_ROLE)
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
        heads.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        heads.setHighlightSections(False)
        heads.setStretchLastSection(True)
        for column, width in enumerate(_WIDTHS):
            self.setColumnWidth(column, width)
        heads.sectionResized.connect(lambda *_: self.resizeRowsToContents())
        self.show_switches(())

    def show_switches(self, rows: Sequence[MeasuredSwitch]) -> None:
        """Show another report, or the same one in another language."""
        self._rows = tuple(rows)
        self._items.setRowCount(0)
        for column, head in enumerate(_HEADS):
            item = QStandardItem(tr(head))
            set_tip(item, tr(_TIPS[column]) if column in _TIPS else "")
            self._items.setHorizontalHeaderItem(column, item)
        for row in self._rows:
            self._items.appendRow([_item(row, column) for column in range(len(_HEADS))])

    def look_for(self, text: str) -> tuple[int, int]:
        """Show the rows with all words of a text; the number of these, and of all rows."""
        words = (f"(?=.*{QRegularExpression.escape(word)})" for word in text.split())
        any_case = QRegularExpression.PatternOption.CaseInsensitiveOption
        self._filtered.setFilterRegularExpression(
            QRegularExpression("^" + "".join(words), any_case)
        )
        return self._filtered.rowCount(), self._items.rowCount()

    def changeEvent(self, event: QEvent) -> None:
        """Follow the language."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.LanguageChange:
            self.show_switches(self._rows)


def _item(row: MeasuredSwitch, column: int) -> QStandardItem:
    item = QStandardItem(_COLUMNS[column](row))
    set_tip(item, _tip(row, column))
    if column == 0:
        words = " ".join((row.name, *(text_of(row) for text_of in _COLUMNS)))
        item.setData(words.replace("\n", " "), _WORDS_ROLE)
    if column in _TEXT:
        is_time = column == _TIME
        item.setData(row.time if is_time else row.memory, _RATIO_ROLE)
        calm = _CALM if not is_time or row.scatter is None else max(_CALM, 2 * row.scatter)
        item.setData(calm, CALM_ROLE)
    return item


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
        ratio = index.data(_RATIO_ROLE)
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
    return (text(entry), text(entry.hint)) if has_text(entry.code) else ("", "")


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
