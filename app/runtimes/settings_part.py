"""The line about the NVIDIA runtime among the settings: which is in use and why, and its page."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from app.i18n import tr
from app.runtimes import runtime_page_labels
from app.settings.page_line import PageLine
from app.state.runtimes_model import RuntimeModel


class SettingsPart(PageLine):
    """Says how it stands."""

    def __init__(self, model: RuntimeModel, parent: QWidget | None = None) -> None:
        super().__init__("runtime", parent)
        self._model = model
        model.changed.connect(self.retranslate_ui)
        self.retranslate_ui()

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        self.name.setText(tr("NVIDIA runtime"))
        self.words.setText(runtime_page_labels.summary(self._model))
        self.button.setText(tr("Show …"))
        self.button.setAccessibleName(tr("{text}: NVIDIA runtime", text=tr("Show …")))
