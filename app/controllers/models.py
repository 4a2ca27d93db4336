"""The list of models and the rest of the window: opens it, and shows what it knows elsewhere."""

from __future__ import annotations

import dataclasses

from PySide6.QtCore import QObject

from app.controllers.model_files import MISSING, WeightsOrders
from app.controllers.queue import Controller
from app.main_window import MainWindow
from app.models import model_labels
from app.models.models_page import ManagerView
from app.state.job_row import JobRow
from app.state.model_files_model import WeightsModel
from app.state.telemetry_model import TelemetryModel
from engine.protocol.model_file_state import PublishedState
from engine.settings import schema


class WeightsLink(QObject):
    """Joins window, model and orders."""

    def __init__(
        self,
        window: MainWindow,
        controller: Controller,
        telemetry: TelemetryModel,
        orders: WeightsOrders,
    ) -> None:
        super().__init__(window)
        self._window, self._controller = window, controller
        self._telemetry, self._orders = telemetry, orders
        self._model = model = orders.model
        self._view: ManagerView | None = None
        window.page_wanted.connect(self._open)
        model.changed.connect(self._show)
        model.progressed.connect(self._show)

    @property
    def view(self) -> ManagerView:
        """The list; made when somebody first wants to see it."""
        if self._view is None:
            view = self._view = ManagerView(self._model, self._telemetry, self._window)
            view.get_wanted.connect(self._orders.get)
            view.stop_wanted.connect(self._orders.stop)
            view.verify_wanted.connect(self._orders.verify)
            view.remove_wanted.connect(self._orders.remove)
            view.import_wanted.connect(self._orders.take_file)
            view.refresh_wanted.connect(self._orders.look)
            view.use_wanted.connect(self.use)
        return self._view

    def _open(self, page: str) -> None:
        if page == "models":
            self.open_view()
        elif page == "weights":
            self.get_for_selected()

    def open_view(self) -> None:
        """Show the list, with what lies on the disk now."""
        self._orders.look()
        self.view.show()
        self.view.raise_()
        self.view.activateWindow()

    def get_for_selected(self) -> None:
        """Fetch what the selected film was refused for, and show it."""
        row = self._window.selected
        self.open_view()
        if row is not None:
            file = self._orders.get_for(row.settings, _params(row))
            self.view.reveal(file)

    def use(self, file: str) -> None:
        """Choose a file for the selected film, or for the next ones where its choices are fixed."""
        known = self._model.find(file)
        if known is None or not known.models:
            return
        values = _choices(known, self._window.choices.settings.model)
        self.view.close()
        if not self._window.choices.choose(values):
            settings = dataclasses.replace(self._controller.settings, **values)
            self._controller.choose("", settings, None)

    def _show(self, _file: str = "") -> None:
        model = self._model
        published = (*schema.SEEDVR2, *schema.WAN_UPSCALERS)
        known = {name: _availability(model, name) for name in published if model.is_known}
        self._window.choices.say_availability(known)
        overall = model.overall
        self._window.top.show_models(model_labels.short_progress(overall) if overall else "")


def _choices(file: PublishedState, model: str) -> dict[str, object]:
    """What to choose so that a film is made with a file; `model` stays where the file serves it."""
    values: dict[str, object] = {"model": model if model in file.models else file.models[0]}
    own = str(file.path) if file.is_own and file.path is not None else ""
    if file.kind == "dit":
        return {**values, "dit": own, "precision": "auto" if own else file.precision}
    return {**values, "vae": own}


def _availability(model: WeightsModel, name: str) -> str:
    package = model.best_package(name)
    return model_labels.availability(package, model.transfer_of(package) if package else None)


def _params(row: JobRow) -> dict[str, str]:
    """What the refusal says about missing files."""
    if row.error is not None and row.error.code == MISSING:
        return row.error.params
    notices = row.plan.notices if row.plan is not None else ()
    return next((notice.params for notice in notices if notice.code == MISSING), {})
