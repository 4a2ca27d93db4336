"""Every setting that is not shown above, in a folded list; built from the schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import cast

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QGridLayout, QWidget

from app.bound import bind
from app.engine_messages import choice_text, hint, text, title
from app.settings.editors import (
    ChoiceEditor,
    Editor,
    LineEditor,
    TimeEditor,
    make_editor,
    title_of,
)
from app.settings.gpus_editor import GpusEditor
from app.theme.icons import icon
from app.widgets.layouts import RIGHT, column, grid, layout_of
from app.widgets.parts import button, follow_in_tab_order, label
from app.widgets.plain import Label
from app.widgets.reveal import bring_into_view
from engine.core.errors import ErrorInfo
from engine.protocol.events import DevicesListed
from engine.settings import schema

_EDITOR_WIDTH = 160
_DEVICE_WIDTH = 224  # "Auto · RTX 5070 Ti, 16 GB"


class MoreChoices(QWidget):
    """A fold: a button, and below it what few change: the given part, and one row per setting.

    The rows are half of the window's controls, which each change of the theme visits: they are
    made when they are first asked for.

    Args:
        first: Part above the rows.
        controls: Controls of that part.
    """

    changed = Signal(str, object)  # name, value

    def __init__(
        self, first: QWidget, controls: Sequence[QWidget], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._first, self._controls = first, controls
        self._button = button("More settings", "moreChoices", "fold")
        self._button.setCheckable(True)
        self._rows: SettingRows | None = None
        self._shown: dict[str, Callable[[SettingRows], None]] = {}  # latest of each kind
        column(self._button, first, spacing=8, on=self)
        first.setVisible(False)
        self._button.toggled.connect(self._unfold)
        bind(self, self._draw_arrow, theme=True)

    @property
    def rows(self) -> SettingRows:
        """The rows, shown or not; the first call makes them."""
        if self._rows is None:
            self._rows = SettingRows(self)
            self._rows.setVisible(self._button.isChecked())
            layout_of(self).addWidget(self._rows)
            follow_in_tab_order(self._button, (*self._controls, *self._rows.controls))
            for show in self._shown.values():
                show(self._rows)
            self._rows.changed.connect(self.changed)
        return self._rows

    @property
    def editors(self) -> Mapping[str, Editor]:
        """Editors of the rows, by setting."""
        return self.rows.editors

    def show_settings(self, settings: schema.JobSettings) -> None:
        """Show the values of a job."""
        self._show("settings", lambda rows: rows.show_settings(settings))

    def show_families(self, families: set[str]) -> None:
        """Show only the settings that the families of model and source use, and those of all."""
        self._show("families", lambda rows: rows.show_families(families))

    def show_unavailable(self, reasons: Mapping[str, Mapping[str, str]]) -> None:
        """Setting -> value that cannot be chosen here -> why."""
        self._show("unavailable", lambda rows: rows.show_unavailable(reasons))

    def show_devices(self, listed: DevicesListed, settings: schema.JobSettings) -> None:
        """Offer the devices that are here, GPUs by name where there are several, and all of them.

        Args:
            listed: By the engine.
            settings: Settings of the shown job, which may name others.
        """
        self._show("devices", lambda rows: rows.show_devices(listed, settings))

    def show_refusal(self, name: str, error: ErrorInfo | None) -> None:
        """Mark the time that an error of the plan is about; "" for none."""
        self._show("refusal", lambda rows: rows.show_refusal(name, error))

    def unfold(self) -> None:
        """Show the rows."""
        self._button.setChecked(True)

    def _draw_arrow(self) -> None:
        shape = "chevron-up" if self._button.isChecked() else "chevron-down"
        self._button.setIcon(icon(shape, size=16))

    def _show(self, what: str, show: Callable[[SettingRows], None]) -> None:
        """Show it in the rows, at once or when they are made; later calls rest on earlier ones."""
        self._shown.pop(what, None)
        self._shown[what] = show
        if self._rows is not None:
            show(self._rows)

    def _unfold(self, is_open: bool) -> None:
        for part in (self._first, self.rows):
            part.setVisible(is_open)
        self._draw_arrow()
        if is_open:
            bring_into_view(self)


class SettingRows(QWidget):
    """One row per setting, in groups."""

    changed = Signal(str, object)  # name, value

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.editors: dict[str, Editor] = {}
        self._headings: dict[str, Label] = {}
        self._labels: dict[str, Label] = {}
        self._has_devices = False  # to choose from
        self._takes_all = False  # of several GPUs
        self._refusal: tuple[str, ErrorInfo | None] = ("", None)
        self._fill()
        bind(self, lambda: self.show_refusal(*self._refusal))

    @property
    def controls(self) -> list[QWidget]:
        """Controls of the rows, from top to bottom."""
        return [editor.control for editor in self.editors.values()]

    def show_settings(self, settings: schema.JobSettings) -> None:
        """Show the values of a job."""
        for name, editor in self.editors.items():
            editor.set_value(getattr(settings, name))

    def show_families(self, families: set[str]) -> None:
        """Show only the settings that the families of model and source use, and those of all."""
        about = schema.describe(schema.JobSettings)
        for group, names in self._groups.items():
            shown = [
                name
                for name in names
                if not about[name].families or families.intersection(about[name].families)
                if name != "device" or self._has_devices
                if name != "excluded_gpus" or self._takes_all
            ]
            self._headings[group].setVisible(bool(shown))
            for name in names:
                self.editors[name].setVisible(name in shown)
                self._labels[name].setVisible(name in shown)
                if isinstance(editor := self.editors[name], LineEditor):
                    editor.reason.setVisible(name in shown and bool(editor.reason.text()))

    def show_refusal(self, name: str, error: ErrorInfo | None) -> None:
        """Mark the time that an error of the plan is about; "" for none."""
        self._refusal = (name, error)
        for editor in self.editors.values():
            if isinstance(editor, TimeEditor):
                is_wrong = error is not None and editor.name == name
                reason = (text(error), hint(error)) if error is not None and is_wrong else ("", "")
                editor.show_reason(*reason)

    def show_unavailable(self, reasons: Mapping[str, Mapping[str, str]]) -> None:
        """Setting -> value that cannot be chosen here -> why."""
        for name, editor in self.editors.items():
            if isinstance(editor, ChoiceEditor):
                editor.show_unavailable(reasons.get(name, {}))

    def show_devices(self, listed: DevicesListed, settings: schema.JobSettings) -> None:
        """Offer the devices that are here, GPUs by name where there are several, and all of them.

        Args:
            listed: By the engine.
            settings: Settings of the shown job, which may name others.
        """
        gpus = {one.value: one.title for one in listed.devices[:-1]}
        several = gpus if len(gpus) > 1 else {}
        excluding = cast(GpusEditor, self.editors["excluded_gpus"])
        excluding.show_gpus(gpus)
        excluding.set_value(settings.excluded_gpus)
        taking_part = [title for value, title in several.items() if value not in excluding.chosen]
        together = {"all": _together(taking_part)} if several else {}
        values = {"auto": "", **together, **several, "cpu": ""}
        editor, chosen = cast(ChoiceEditor, self.editors["device"]), settings.device
        editor.show_values(values if chosen in values else {**values, chosen: ""})
        editor.set_value(chosen)
        editor.show_automatic(listed.automatic.value if several else "")
        self._has_devices = bool(gpus)
        self._takes_all = chosen == "all" and bool(several)

    def _fill(self) -> None:
        rows = grid(spacing=(12, 6), margins=(0, 0, 0, 4), wide=[0], on=self)
        self._groups = groups()
        for group, names in self._groups.items():
            heading = label(partial(title, f"setting-group.{group}"), "section")
            self._headings[group] = heading
            rows.addWidget(heading, rows.rowCount(), 0, 1, 2)
            for name in names:
                self._add_row(rows, name)

    def _add_row(self, rows: QGridLayout, name: str) -> None:
        is_of_gpus = schema.about(name).kind == "gpus"
        editor = GpusEditor(name) if is_of_gpus else make_editor(name)
        editor.changed.connect(self.changed)
        is_wide = name in ("device", "excluded_gpus")  # it reaches into the column of labels
        editor.setFixedWidth(_DEVICE_WIDTH if is_wide else _EDITOR_WIDTH)
        self.editors[name], self._labels[name] = editor, title_of(name, editor.control)
        at = rows.rowCount()
        rows.addWidget(self._labels[name], at, 0)
        place = (0, 1, 2) if is_wide else (1, 1, 1)
        rows.addWidget(editor, at, *place, RIGHT)
        if isinstance(editor, LineEditor):
            rows.addWidget(editor.reason, at + 1, 0, 1, 2)


def _together(titles: list[str]) -> str:
    """All GPUs, with what they are called: "All GPUs · RTX 4090 + RTX 3060"."""
    names = " + ".join(title.partition(",")[0] for title in titles)
    return f"{choice_text('device', 'all')} · {names}"


def groups() -> dict[str, tuple[str, ...]]:
    """Names of settings by group of the schema, without the main ones, which have forms."""
    found: dict[str, tuple[str, ...]] = {}
    for name, about in schema.describe(schema.JobSettings).items():
        if about.group != "main":
            found[about.group] = (*found.get(about.group, ()), name)
    return found
