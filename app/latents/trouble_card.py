"""Why a latent has no picture: its VAE is not here, or the file cannot be used."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QSizePolicy, QWidget

from app.i18n import tr
from app.models.model_labels import problem, progress, size
from app.state.model_file_row import Package
from app.state.tasks_model import TaskState
from app.widgets.notice_line import NoticeLine
from engine.core.errors import ErrorInfo, WeightsMissing


def is_missing(error: ErrorInfo | None) -> bool:
    """Whether a file of the catalogue is all that is missing."""
    return error is not None and error.code == WeightsMissing.code


class TroubleCard(QFrame):
    """The error in words, and for a missing file the button that downloads it."""

    get_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("kind", "card")
        self.setObjectName("latentTrouble")
        self._line, self._get = NoticeLine(), QPushButton()
        self._get.setObjectName("getLatentVae")
        self._get.setAutoDefault(False)
        self._get.clicked.connect(self.get_wanted)
        row = QHBoxLayout(self)
        row.setContentsMargins(14, 12, 14, 12)
        row.setSpacing(12)
        row.addWidget(self._line, 1)
        row.addWidget(self._get, 0, Qt.AlignmentFlag.AlignVCenter)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        self.show_trouble(None, None, None)

    def show_trouble(
        self, error: ErrorInfo | None, package: Package | None, task: TaskState | None
    ) -> None:
        """Show what is wrong, and what is done about it.

        Args:
            error: Of the engine; None hides the card.
            package: The missing file; None where it is not known.
            task: What is done to that; None while it rests.
        """
        self.setVisible(error is not None)
        if error is None:
            return
        failed = task.error if task is not None else None
        title, text = problem(failed or error)
        if task is not None and task.runs:
            text = tr("Waits for its turn") if task.waits else progress(task)
        elif package is not None and failed is None:  # the button says the rest
            text = f"{package.main.filename} · {size(package.main)}"
        is_ours = is_missing(error) and failed is None
        self._line.say("warning" if is_ours else "refusal", title, text)
        self._get.setVisible(is_missing(error) and (task is None or failed is not None))
        self._get.setText(tr("Get the model") if failed is None else tr("Try again"))
