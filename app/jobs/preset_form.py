"""Presets: a list for the GPU of this machine, and a menu to save, export and import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from PySide6.QtCore import Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QToolButton, QWidget

from app import labels
from app.bound import bind
from app.engine_messages import hint, text
from app.i18n import mark, tr
from app.widgets.controls import ChoiceBox
from app.widgets.layouts import MIDDLE, RIGHT, column, row
from app.widgets.notice_line import NoticeLine
from app.widgets.parts import bind_text, elided, icon_button, label, named
from app.widgets.plain import set_tip
from engine.core.errors import ErrorInfo, PlanDoesNotFit, SettingsError
from engine.protocol.plan import Plan
from engine.settings.presets import Preset, applied, matching
from engine.settings.schema import JobSettings, model_family, with_values

GOALS = {"fast": mark("Fast"), "balanced": mark("Balanced"), "best": mark("Best")}
_ORDERS = {  # of the menu: the request and its text
    "save": mark("Save as …"),
    "export": mark("Export …"),
    "import": mark("Import …"),
    "remove": mark("Delete …"),
}


class PresetForm(QWidget):
    """Shows which preset the settings are; emits which one is chosen instead.

    It has its place before the presets are known, so that nothing below moves when they are.
    """

    chosen = Signal(Preset)
    ordered = Signal(str, object)  # of _ORDERS; the shown Preset, None for choices of one's own

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._presets: tuple[Preset, ...] = ()
        self._gpu = ""
        self._settings = JobSettings()
        self._for = elided(kind="secondary", name="presetFor", align=RIGHT | MIDDLE)
        self._box = named(ChoiceBox(), "preset")
        bind_text(self._box, self._box.setAccessibleName, "Preset")
        title = label("Preset")
        title.setBuddy(self._box)
        self._plans: Mapping[JobSettings, Plan | None] = {}
        self._more = icon_button(
            "more", "Save, export or import presets", "presetMenu", "more", size=16
        )
        self._more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._menu = QMenu(self._more)
        self._actions = {name: QAction(self) for name in _ORDERS}
        self._fill_menu()
        self._problem = named(NoticeLine("warning"), "presetProblem")
        self._problem.setVisible(False)
        head = row(title, (self._for, 1), self._more, spacing=8)
        column(head, self._box, self._problem, spacing=4, on=self)
        QWidget.setTabOrder(self._box, self._more)
        self._box.activated.connect(self._choose)
        bind(self, self._show)

    @property
    def shown(self) -> Preset | None:
        """The preset that the settings are; None for choices of one's own."""
        return matching(self._presets, self._settings)

    @property
    def automatic(self) -> str:
        """Model that "auto" stands for on this machine, as far as that is known without a video."""
        return next((preset.automatic for preset in self._presets if preset.automatic), "lite")

    def show_presets(self, presets: Sequence[Preset], gpu: str) -> None:
        """Show the presets, and the GPU that they are made for."""
        self._presets, self._gpu = tuple(presets), gpu
        self._problem.setVisible(False)
        self.setVisible(bool(presets))
        self._show()

    def show_plans(self, plans: Mapping[JobSettings, Plan | None]) -> None:
        """Show the times of presets for a video, as far as its plans are known, by settings."""
        self._plans = plans
        self._show_times()

    def show_settings(self, settings: JobSettings) -> None:
        """Show which preset the settings are."""
        self._settings = settings
        if not self._presets:
            return
        shown = self.shown
        at = self._box.findData(shown.name if shown is not None else "")
        if shown is None and at < 0:
            self._box.insertItem(0, tr("Custom"), "")
            at = 0
        elif shown is not None and self._box.itemData(0) == "":
            self._box.removeItem(0)
            at -= 1
        self._box.setCurrentIndex(at)
        self._explain(shown)
        self._show_times()

    def open_list(self) -> None:
        """Show what there is to choose."""
        self._box.showPopup()

    def open_menu(self) -> None:
        """Show what can be done with presets."""
        self._menu.popup(self._more.mapToGlobal(self._more.rect().bottomLeft()))

    def show_problem(self, error: ErrorInfo) -> None:
        """Something about a preset did not work."""
        self._problem.show_message("warning", text(error), hint(error))
        self._problem.setVisible(True)

    def _show(self) -> None:
        self._for.setText(tr("for {gpu}", gpu=self._gpu) if self._gpu else "")
        for name, order in _ORDERS.items():
            self._actions[name].setText(tr(order))
        self._box.clear()
        for control in (self._box, self._more):
            control.setEnabled(bool(self._presets))
        if not self._presets:
            self._box.offer(tr("Checking your hardware …"), "")
        is_own = False
        for preset in sorted(self._presets, key=lambda preset: preset.is_own):
            if preset.is_own and not is_own and self._box.count():
                self._box.insertSeparator(self._box.count())
            is_own = preset.is_own
            self._box.offer(title_of(preset), preset.name)
            self._box.set_item_tip(self._box.count() - 1, _description(preset))
        self.show_settings(self._settings)

    def _show_times(self) -> None:
        """Name each preset with its time and what it costs or brings."""
        for preset in self._presets:
            at = self._box.findData(preset.name)
            with suppress(SettingsError):  # choosing it says why
                plan = self._plans.get(chosen_by(preset, self._settings))
                self._box.set_item_texts(at, *_offered(preset, plan))
        if self._box.itemData(0) == "" and self._presets:
            plan = self._plans.get(self._settings)
            time = labels.expected(plan) if plan is not None else ""
            self._box.set_item_texts(0, " · ".join(filter(None, (tr("Custom"), time))))

    def _explain(self, current: Preset | None) -> None:
        tip = _description(current) if current is not None else ""
        set_tip(self._box, tip)
        self._box.setAccessibleDescription(tip)
        self._actions["export"].setEnabled(current is not None)
        self._actions["remove"].setEnabled(current is not None and current.is_own)

    def _choose(self, at: int) -> None:
        name = self._box.itemData(at)
        requested = next((preset for preset in self._presets if preset.name == name), None)
        self._problem.setVisible(False)
        if requested is not None:
            self.chosen.emit(requested)

    def _fill_menu(self) -> None:
        for name, action in self._actions.items():
            action.setObjectName(f"preset-{name}")
            action.triggered.connect(lambda _=False, name=name: self.ordered.emit(name, self.shown))
            self._menu.addAction(action)
        self._menu.insertSeparator(self._actions["remove"])
        self._more.setMenu(self._menu)


def chosen_by(preset: Preset, settings: JobSettings) -> JobSettings:
    """The settings with those of a preset; a VAE of the user's own stays in its family.

    Raises:
        SettingsError: The preset has a setting that does not exist, or an impossible value.
    """
    requested = applied(preset, settings)
    is_kin = model_family(requested.model) == model_family(settings.model)
    return requested if is_kin else with_values(requested, {"vae": ""})


def _offered(preset: Preset, plan: Plan | None) -> tuple[str, ...]:
    """Name, time and effect of a preset, and the same in fewer words."""
    title, effect = title_of(preset), tr(preset.effect) if preset.effect else ""
    if plan is None:
        return " · ".join(filter(None, (title, effect))), short_title(preset)
    if any(notice.code == PlanDoesNotFit.code for notice in plan.notices):
        return f"{title} · {tr('does not fit into memory')}", f"{title} · {tr('does not fit')}"
    title, time = short_title(preset), labels.expected(plan)
    return " · ".join(filter(None, (title, time, effect))), f"{title} · {time}"


def short_title(preset: Preset) -> str:
    """Title of a preset without what else it says."""
    return preset.title if preset.is_own else " / ".join(tr(GOALS[one]) for one in preset.goals)


def title_of(preset: Preset) -> str:
    """Title of a preset in a list that names the GPU already."""
    names = short_title(preset)
    return (
        tr("{goals} (identical on this computer)", goals=names) if len(preset.goals) > 1 else names
    )


def _description(preset: Preset) -> str:
    return preset.description if preset.is_own else tr(preset.description)
