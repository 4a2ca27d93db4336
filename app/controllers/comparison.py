"""Results of one source against each other: what the preview can compare with the selected job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, combinations

from PySide6.QtCore import QObject

from app import labels
from app.bridge.engine_bridge import EventHub
from app.jobs.preset_form import title_of
from app.main_window import MainWindow
from app.preview.film import Film
from app.state.job_row import JobRow, JobState
from app.state.listings import PresetsModel
from app.state.queue_model import QueueModel
from engine.core.plain_text import one_line
from engine.protocol import events
from engine.settings.presets import matching


class ComparisonController(QObject):
    """Offers the finished results of the selected film, while that is not in work."""

    def __init__(
        self, window: MainWindow, queue: QueueModel, presets: PresetsModel, hub: EventHub
    ) -> None:
        super().__init__(window)
        self._window, self._queue, self._presets = window, queue, presets
        hub.subscribe(events.PlanChosen, self.refresh)
        hub.subscribe(events.ResultLost, self._lose)
        window.preview.pair_bar.retranslated.connect(self.refresh)

    def refresh(self, *_: object) -> None:
        """Look at the queue again."""
        view, row = self._window.preview, self._window.selected
        if row is None or row.media is None or row.job_id != view.job_id:
            return
        others = [one for one in self._queue.rows if one is not row and _can_compare(one, row)]
        rows = [row, *others] if others and not row.state.is_active else []
        names = result_names(rows, self._presets)
        view.pair.offer([_film(one, name) for one, name in zip(rows, names, strict=True)])

    def _lose(self, event: events.ResultLost) -> None:
        self._window.preview.result_lost(event)
        self.refresh()


def result_names(rows: Sequence[JobRow], presets: PresetsModel) -> list[str]:
    """The shortest names that tell results of one source apart, next to their sizes.

    Their models, their presets, both, or the names of their files.
    """
    choices: tuple[Callable[[JobRow], str], ...] = (
        lambda row: labels.result_name(row.plan),
        lambda row: _preset_title(row, presets),
    )
    for wanted in chain(combinations(choices, 1), combinations(choices, 2)):
        names = [" · ".join(filter(None, (one(row) for one in wanted))) for row in rows]
        seen = {(name, labels.target(row)) for name, row in zip(names, rows, strict=True)}
        if len(seen) == len(rows) and all(names):
            return names
    return [one_line(row.plan.output.name) if row.plan is not None else row.name for row in rows]


def _preset_title(row: JobRow, presets: PresetsModel) -> str:
    found = matching(presets.presets, row.settings)
    return title_of(found) if found is not None else ""


def _can_compare(one: JobRow, row: JobRow) -> bool:
    """Whether a job has a result of the same source as another one."""
    has_result = one.state is JobState.DONE and one.plan is not None and one.lost is None
    return has_result and one.media is not None and _source_of(one) == _source_of(row)


def _source_of(row: JobRow) -> tuple[object, ...]:
    assert row.media is not None
    return row.media.path, row.media.bytes, row.media.video.frame_count


def _film(row: JobRow, name: str) -> Film:
    assert row.media is not None
    return Film(job_id=row.job_id, media=row.media, plan=row.plan, side="result", name=name)
