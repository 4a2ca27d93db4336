"""Memory of each stage of a plan: a bar for each, with the limit as an amber tick."""

from __future__ import annotations

from dataclasses import dataclass, replace

from PySide6.QtWidgets import QWidget

from app import labels
from app.i18n import mark, tr
from app.widgets.layouts import MIDDLE, RIGHT, grid
from app.widgets.meters import ShareBar
from app.widgets.parts import label, named, set_kind
from app.widgets.plain import Label, set_tip
from engine.core.units import memory_text
from engine.protocol.plan import Plan, StagePlan

_ROOM = 1.04  # of the limit: there is room after its tick


@dataclass(frozen=True, slots=True)
class Row:
    """One bar: bytes that are needed, bytes that may be used, and its tool tip."""

    name: str
    needed: int
    limit: int
    tip: str

    @property
    def is_over(self) -> bool:
        """Whether more is needed than may be used."""
        return self.needed > self.limit > 0


def rows_of(plan: Plan) -> list[Row]:
    """The bars of a plan: stages on the GPU and main memory, or main memory alone."""
    parts = [
        f"{labels.stage_name(one.stage)}: {memory_text(one.peak_bytes)}" for one in plan.stages
    ]
    of_memory = Row(
        name=tr("Memory"),
        needed=plan.peak_bytes,
        limit=plan.budget_bytes,
        tip="\n".join([*parts, tr(_PART_OF_FREE)]),
    )
    on_gpu = [stage for stage in plan.stages if stage.device_bytes]
    if not on_gpu:
        return [of_memory]
    rows = [
        Row(
            name=labels.stage_name(stage.stage),
            needed=stage.device_bytes,
            limit=plan.device_budget_bytes,
            tip=_on_gpu(stage, plan),
        )
        for stage in on_gpu
    ]
    limit = tr("limit {size}", size=memory_text(plan.budget_bytes))
    tip = f"{memory_text(plan.peak_bytes)}, {limit}\n{of_memory.tip}"
    return [*rows, Row(tr("RAM"), plan.peak_bytes, plan.budget_bytes, tip)]


def fullest(plan: Plan) -> Row:
    """The bar that comes nearest to its limit, or lies the most above it, named by its memory."""
    *on_gpu, of_ram = rows_of(plan)
    named_rows = [*(replace(one, name=tr("GPU memory")) for one in on_gpu), of_ram]
    return max(named_rows, key=lambda row: row.needed / max(row.limit, 1))


class MemoryBars(QWidget):
    """Shows bars in rows."""

    def __init__(self, rows: list[Row] | None = None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rows: list[tuple[Label, ShareBar, Label]] = []
        self._grid = grid(spacing=(10, 4), wide=[1], on=self)
        self.show_rows(rows or [])

    def show_rows(self, rows: list[Row]) -> None:
        """Show other bars."""
        while len(self._rows) < len(rows):
            self._add_row()
        for at, parts in enumerate(self._rows):
            for part in parts:
                part.setVisible(at < len(rows))
        for row, parts in zip(rows, self._rows, strict=False):
            _show(row, *parts)

    def _add_row(self) -> None:
        at = len(self._rows)
        name, bar = label(kind="secondary"), named(ShareBar(), f"memoryBar{at}")
        figure = label(name=f"memoryNeeded{at}", align=RIGHT | MIDDLE)
        for column, part in enumerate((name, bar, figure)):
            self._grid.addWidget(part, at, column)
        self._rows.append((name, bar, figure))


def _show(row: Row, name: Label, bar: ShareBar, figure: Label) -> None:
    whole = max(row.needed, row.limit, 1) * _ROOM
    tick = row.limit / whole if row.limit else None
    bar.set_shares(row.needed / whole, tick=tick, is_over=row.is_over)
    needed, limit = memory_text(row.needed), memory_text(row.limit)
    name.setText(row.name)
    number, unit = needed.split(" ")
    shown = number if limit.endswith(unit) else needed
    figure.setText(f"{shown} / {limit}" if row.limit else needed)
    set_kind(figure, "error" if row.is_over else "strong")
    for part in (name, bar, figure):
        set_tip(part, row.tip)
    sentence = tr("{stage} needs {needed}, the limit is {limit}")
    bar.setAccessibleName(sentence.format(stage=row.name, needed=needed, limit=limit))


def _on_gpu(stage: StagePlan, plan: Plan) -> str:
    name = labels.stage_name(stage.stage)
    limit = tr("limit {size}", size=memory_text(plan.device_budget_bytes))
    lines = [f"{name}: {memory_text(stage.device_bytes)}, {limit}"]
    if plan.device_limit_bytes:
        reserved = memory_text(plan.device_limit_bytes)
        lines.append(tr("up to {size} reserved, fragmentation included", size=reserved))
    if stage.seconds:
        lines.append(labels.about(stage.seconds))
    return "\n".join(lines)


_PART_OF_FREE = mark("Memory that Upreel may use: part of what is free now")
