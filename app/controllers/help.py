"""Help: opens its page, which is made when the user first asks for it."""

from __future__ import annotations

from PySide6.QtCore import QObject

from app.help.view import HelpView
from app.main_window import MainWindow


class HelpController(QObject):
    """Opens the page, and closes an open one."""

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        self._window = window
        self._view: HelpView | None = None
        window.actions_["help"].triggered.connect(self._toggle)

    @property
    def view(self) -> HelpView:
        """The page."""
        if self._view is None:
            self._view = HelpView(self._window)
        return self._view

    def _toggle(self) -> None:
        if self.view.isVisible():
            self.view.close()
        else:
            self.view.bring_up()
