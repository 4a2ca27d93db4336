"""The line below the queue's heading that says what of a folder was added, and what was not."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QToolButton, QVBoxLayout, QWidget

from app.i18n import tr
from app.jobs.found_files import MOST_FILES, FoundFiles
from app.theme.icons import icon
from app.widgets.controls import Themed
from app.widgets.plain import Label, set_tip
from engine.core.plain_text import one_line

_MOST_NAMES = 12  # in the tool tip


class AddedLine(Themed, QFrame):
    """Hidden where nothing was left out, and once it was closed."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("addedLine")
        self.setProperty("kind", "card")
        self._found = FoundFiles()
        self._text, self._reasons = Label(), Label()
        self._reasons.setProperty("kind", "secondary")
        for label in (self._text, self._reasons):
            label.setWordWrap(True)
        self._close = QToolButton()
        self._close.setObjectName("closeAdded")
        self._close.setProperty("kind", "quiet")
        self._close.clicked.connect(self.hide)
        texts = QVBoxLayout()
        texts.setSpacing(2)
        texts.addWidget(self._text)
        texts.addWidget(self._reasons)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 8, 8, 8)
        row.addLayout(texts, 1)
        row.addWidget(self._close, 0, Qt.AlignmentFlag.AlignTop)
        self.retranslate_ui()
        self.hide()

    def show_found(self, found: FoundFiles) -> None:
        """Say what became of the files of a folder."""
        self._found = found
        self.retranslate_ui()
        self.setVisible(bool(found.skipped))

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        added, skipped = len(self._found.files), self._found.skipped
        left_out = sum(map(len, skipped.values()))
        self._text.setText(tr("{added} added, {skipped} skipped", added=added, skipped=left_out))
        reasons = [tr(why, count=len(f), most=MOST_FILES) for why, f in skipped.items()]
        self._reasons.setText("\n".join(reasons))
        names = [one_line(path.name) for files in skipped.values() for path in files]
        shown = names[:_MOST_NAMES] + (["…"] if len(names) > _MOST_NAMES else [])
        set_tip(self._reasons, "\n".join(shown))
        self._close.setIcon(icon("cancel", size=14))
        set_tip(self._close, tr("Close"))
        self._close.setAccessibleName(tr("Close"))
