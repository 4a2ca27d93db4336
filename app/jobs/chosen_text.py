"""The choices of a video that was started, as text: there is nothing to change any more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from PySide6.QtWidgets import QWidget

from app import labels
from app.bound import bind
from app.engine_messages import choice_text, setting_title
from app.i18n import tr
from app.jobs.output_form import quality_of, video_codec
from app.settings.editors import value_text
from app.state.job_row import JobRow
from app.widgets.layouts import TOP, grid
from app.widgets.parts import label, named
from app.widgets.plain import Label
from engine.protocol.plan import Plan
from engine.settings import schema
from engine.settings.schema import JobSettings

_SIZES = ("scale", "height", "width")  # one line: what comes out

_OF_CODECS = ("codec", "crf", "bit_rate")  # images have none


def chosen(row: JobRow) -> Iterator[tuple[str, str]]:
    """Names and values: main choices, without files that are not chosen, and what is unusual."""
    settings, plan, usual = row.settings, row.plan, JobSettings()
    family = plan.work.family if plan is not None else schema.model_family(settings.model)
    yield tr("Size"), labels.from_to(row)
    for name, about in schema.describe(JobSettings).items():
        value = getattr(settings, name)
        is_read = not about.families or family in about.families
        is_replaced = name == "crf" and settings.bit_rate > 0
        is_replaced |= name in _OF_CODECS and plan is not None and not video_codec(plan)
        if name in _SIZES or not is_read or is_replaced:
            continue
        if (about.group == "main" and value != "") or value != getattr(usual, name):
            yield setting_title(name), _text(name, value, plan)


def _text(name: str, value: Any, plan: Plan | None) -> str:
    """A value; for "automatic" what it has become."""
    if name == "crf":
        return f"{quality_of(value)} · {value}"
    if value != "auto" or plan is None:
        return value_text(name, value)
    meant = {"model": plan.work.model, "container": plan.format, "codec": video_codec(plan)}
    decided = meant.get(name) or plan.work.decided.get(name, "")
    return choice_text(name, decided) if decided else value_text(name, value)


class ChosenText(QWidget):
    """Two columns of text that can be read, selected and copied."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        named(self, "chosenText")
        self._grid = grid(spacing=(16, 10), margins=(0, 4, 0, 0), wide=[1], on=self)
        self._rows: list[tuple[Label, Label]] = []
        self._job: JobRow | None = None
        bind(self, self._show)

    def show_job(self, row: JobRow) -> None:
        """Show the choices of a job."""
        self._job = row
        self._show()

    def _show(self) -> None:
        texts = list(chosen(self._job)) if self._job is not None else []
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
        name, value = label(kind="secondary"), label(wraps=True, selectable=True)
        for at, part in enumerate((name, value)):
            self._grid.addWidget(part, len(self._rows), at, TOP)
        self._rows.append((name, value))
