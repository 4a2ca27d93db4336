"""Other computers and the rest of the window: pairings, and whether this computer is lent."""

from __future__ import annotations

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from app.controllers.queue import QueueController
from app.controllers.settings import SettingsController
from app.i18n import tr
from app.machines.machines_page import MachinesPage, machines_line
from app.machines.pairing_dialog import PairingDialog
from app.main_window import MainWindow
from app.state.machines_model import MachinesModel, Step
from app.ui_state import UiState
from app.widgets.controls import is_confirmed
from engine.protocol import commands, machines
from engine.settings.schema import EngineSettings


class MachinesController(QObject):
    """Connects page, dialog, model and engine; others find this computer while the page is open."""

    def __init__(
        self,
        window: MainWindow,
        controller: QueueController,
        model: MachinesModel,
        settings: SettingsController,
        ui_state: UiState,
    ) -> None:
        super().__init__(window)
        self._window, self._controller, self._model = window, controller, model
        self._settings, self._ui_state = settings, ui_state
        self._page: MachinesPage | None = None
        self._dialog: PairingDialog | None = None
        self._is_lent = False  # as last sent to the engine
        window.actions_["machines"].triggered.connect(self.open_page)
        model.changed.connect(self._follow)
        settings.changed.connect(self._lend)

    @property
    def page(self) -> MachinesPage:
        """The page; made when the user first opens it."""
        if self._page is None:
            page = self._page = MachinesPage(self._model, self._window)
            page.pair_requested.connect(self.pair)
            page.forget_requested.connect(self._forget)
            page.lend_requested.connect(lambda is_lent: self._settings.change(lend=is_lent))
            page.finished.connect(self._hide)
        return self._page

    @property
    def dialog(self) -> PairingDialog:
        """The dialog of a pairing, in front of the page."""
        if self._dialog is None:
            dialog = self._dialog = PairingDialog(self._model, self.page)
            dialog.answered.connect(self._answer)
            dialog.cancel_requested.connect(self._cancel)
            dialog.again_requested.connect(lambda: self.pair(self._model.address))
            dialog.read.connect(self._model.dismiss)
        return self._dialog

    def settings_part(self) -> QWidget:
        """The line among the settings."""
        part = machines_line()
        part.page_requested.connect(self.open_page)
        return part

    def look(self) -> None:
        """Lend this computer again, if it was lent when the program ended."""
        self._lend(self._ui_state.engine_settings)

    def pair(self, address: str) -> None:
        """Ask a computer for a pairing."""
        if not self._model.is_running:
            self._model.request(address)
            self._controller.send(machines.PairMachine(address=address))

    def confirm_forget(self, name: str) -> bool:
        """Ask before a pairing is undone: a new one needs both screens."""
        return is_confirmed(
            self.page,
            tr("Forget {name}?", name=name),
            tr("The two computers no longer process parts of each other's videos."),
            yes=tr("Forget"),
            no=tr("Keep"),
        )

    def open_page(self) -> None:
        """Show the page; from here on this computer can be found."""
        self._controller.send(machines.ShowMachines())
        self.page.bring_up()

    def _hide(self) -> None:
        """The page was closed: from here on this computer cannot be found."""
        self._model.dismiss()
        self._controller.send(machines.ShowMachines(are_shown=False))

    def _follow(self) -> None:
        """Show a pairing as soon as there is one; it may have begun on the other computer."""
        if self._model.step is Step.REST or (self._dialog is not None and self.dialog.isVisible()):
            return
        if not self.page.isVisible():
            self.page.bring_up()
        self.dialog.open()

    def _answer(self, words: tuple[str, ...], are_same: bool) -> None:
        if are_same:
            self._model.confirm()
        self._controller.send(machines.ConfirmPairing(words=words, are_same=are_same))

    def _cancel(self) -> None:
        self._controller.send(commands.StopTask(kind=self._model.kind))
        self._model.give_up()  # at once: a computer that does not answer is waited for

    def _forget(self, fingerprint: str) -> None:
        machine = self._model.find(fingerprint)
        if machine is not None and self.confirm_forget(machine.name):
            self._controller.send(machines.ForgetMachine(fingerprint=fingerprint))

    def _lend(self, settings: EngineSettings) -> None:
        if settings.lend != self._is_lent:
            self._is_lent = settings.lend
            self._controller.send(machines.LendMachine(is_lent=settings.lend))
