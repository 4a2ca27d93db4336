"""The line about updates among the settings: which version this is, and the way to a newer one."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from app.i18n import tr
from app.settings.page_line import PageLine
from engine import __version__


class SettingsPart(PageLine):
    """Its button opens the page and looks."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("update", parent)
        self.retranslate_ui()

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        self.name.setText(tr("Updates"))
        yours = tr("You have Upreel {version}.", version=__version__)
        never = tr("Upreel looks for a newer version only when you ask here, never by itself.")
        self.words.setText(f"{yours} {never}")
        self.button.setText(tr("Look for updates …"))
