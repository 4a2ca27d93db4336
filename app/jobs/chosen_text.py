"""The choices of a film that was started, as text: there is nothing to change any more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QWidget

from app import labels
from app.engine_messages import choice_text, setting_title
from app.i18n import tr
from app.jobs.output_form import quality_of
from app.settings.editors import value_text
from app.state.job_row import JobRow
from app.widgets.plain import Label
from engine.protocol.plan import Plan
from engine.settings import schema
from engine.settings.schema import JobSettings

_SIZES = ("scale", "height", "width")  # one line: what comes out


def chosen(row: JobRow) -> Iterator[tuple[str, str]]:
    """Names and values: main choices, without files that are not chosen, and what is unusual."""
    settings, plan, usual = row.settings, row.plan, JobSettings()
    family = plan.work.family if plan is not None else schema.model_family(settings.model)
    yield tr("Size"), labels.from_to(row)
    for name, about in schema.describe(JobSettings).items():
        value = getattr(settings, name)
        is_read = not about.families or family in about.families
        if name in _SIZES or not is_read:
            continue
        if (about.group == "main" and value != "") or value != getattr(usual, name):
            yield setting_title(name), _text(name, value, plan)


def _text(name: str, value: Any, plan: Plan | None) -> str:
    """A value; for "automatic" what it has become."""
    if name == "crf":
        return f"{quality_of(value)} · {value}"
    if value != "auto" or plan is None:
        return value_text(name, value)
    meant = {"model": plan.work.model, "container": plan.container, "codec": plan.picture.codec}
    decided = meant.get(name) or plan.work.decided.get(name, "")
    return choice_text(name, decided) if decided else value_text(name, value)


class ChosenText(QWidget):
    """Two columns of text that can be read, selected and copied."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("chosenText")
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 4, 0, 0)
        self._grid.setHorizontalSpacing(16)
        self._grid.setVerticalSpacing(10)
        self._grid.setColumnStretch(1, 1)
        self._rows: list[tuple[Label, Label]] = []

    def show_job(self, row: JobRow) -> None:
        """Show the choices of a job."""
        texts = list(chosen(row))
        while len(self._rows) < len(texts):
            self._add_row()
        for at, (name, value) in enumerate(self._rows):
            is_used = at < len(texts)
            name.setVisible(is_used)
            value.setVisible(is_used)
            if is_used:
                name.setText(texts[at][0])
                value.setText(texts[at][1])

    def _add_row(self) -> None:
        name, value = Label(), Label()
        name.setProperty("kind", "secondary")
        value.setWordWrap(True)
        value.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        at = len(self._rows)
        top = Qt.AlignmentFlag.AlignTop
        self._grid.addWidget(name, at, 0, top)
        self._grid.addWidget(value, at, 1, top)
        self._rows.append((name, value))
