"""The line below the queue's heading that says what of a folder was added, and what was not."""

from __future__ import annotations

from PySide6.QtWidgets import QFrame, QWidget

from app.bound import bind
from app.i18n import tr
from app.jobs.found_files import MOST_FILES, FoundFiles
from app.widgets.layouts import TOP, column, row
from app.widgets.parts import icon_button, label, named
from app.widgets.plain import set_tip
from engine.core.plain_text import one_line

_MOST_NAMES = 12  # in the tool tip


class AddedLine(QFrame):
    """Hidden where nothing was left out, and once it was closed."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        named(self, "addedLine", "card")
        self._found = FoundFiles()
        self._text, self._reasons = label(wraps=True), label(kind="secondary", wraps=True)
        close = icon_button("cancel", "Close", "closeAdded", "quiet", size=14, on=self.hide)
        texts = column(self._text, self._reasons, spacing=2)
        row((texts, 1), (close, 0, TOP), margins=(12, 8, 8, 8), on=self)
        bind(self, self._show)
        self.hide()

    def show_found(self, found: FoundFiles) -> None:
        """Say what became of the files of a folder."""
        self._found = found
        self._show()
        self.setVisible(bool(found.skipped))

    def _show(self) -> None:
        added, skipped = len(self._found.files), self._found.skipped
        left_out = sum(map(len, skipped.values()))
        self._text.setText(tr("{added} added, {skipped} skipped", added=added, skipped=left_out))
        reasons = [tr(why, count=len(f), most=MOST_FILES) for why, f in skipped.items()]
        self._reasons.setText("\n".join(reasons))
        names = [one_line(path.name) for files in skipped.values() for path in files]
        shown = names[:_MOST_NAMES] + (["…"] if len(names) > _MOST_NAMES else [])
        set_tip(self._reasons, "\n".join(shown))
