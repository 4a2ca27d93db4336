"""Models of the presets Balanced and Best on this GPU; one button downloads missing files."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QVBoxLayout

from app.i18n import tr
from app.installs import model_labels, runtime_labels
from app.state.listings import PresetsModel
from app.state.model_files_model import ModelFilesModel, Package, size_of
from app.state.runtimes_model import RuntimesModel, Situation, can_repair
from app.state.runtimes_model import size_of as runtime_size
from app.widgets.notice_line import NoticeLine
from app.widgets.plain import Label
from engine.core.units import bytes_text
from engine.protocol.model_file_state import PublishedState
from engine.protocol.runtime_state import RuntimeState
from engine.settings.presets import Preset

_GOALS = {"balanced", "best"}


def recommended(presets: Sequence[Preset], files: ModelFilesModel) -> tuple[Package, ...]:
    """Packages of these presets, each once; none where they use Lite."""
    found: dict[str, Package] = {}
    for preset in presets:
        if not _GOALS.isdisjoint(preset.goals):
            package = _package(preset, files)
            if package is not None:
                found.setdefault(package.main.id, package)
    return tuple(found.values())


def _package(preset: Preset, files: ModelFilesModel) -> Package | None:
    """The file that suits the GPU, or another one that is here already, as in a plan."""
    model = str(preset.changes.get("model", "auto"))
    model = preset.automatic if model == "auto" else model
    precision = str(preset.changes.get("precision", "auto"))
    package = files.best_package(model, precision)
    suited = files.best_package(model, preset.precision or precision)
    if precision != "auto" or package is None or suited is None:
        return package
    return suited if suited.is_complete or not package.main.is_here else package


class Recommended(QFrame):
    """A card on top of the page; emits requests for what is missing."""

    get_requested = Signal(str)  # id of a transformer
    runtime_requested = Signal(str, str)  # "download" or "continue", id of a runtime

    def __init__(
        self, files: ModelFilesModel, presets: PresetsModel, runtimes: RuntimesModel
    ) -> None:
        super().__init__()
        self.setObjectName("recommended")
        self.setProperty("kind", "card")
        self._files, self._presets, self._runtimes = files, presets, runtimes
        self._title, self._text, self._state = Label(), Label(), Label()
        self._problem = NoticeLine()
        self._problem.setObjectName("brokenRuntime")
        self._button = QPushButton()
        self._button.setObjectName("getRecommended")
        self._lay_out()
        self._button.clicked.connect(self._get)
        for changed in (files.changed, presets.changed, runtimes.changed):
            changed.connect(self.show_all)

    def show_all(self) -> None:
        """Parts, sizes and what is missing, in the current language."""
        presets = self._presets.presets
        self.setVisible(bool(presets and self._files.files))
        packages, runtime = recommended(presets, self._files), self._runtime()
        self._show_problem()
        if not packages:
            self._title.setText(tr("Recommended: Lite, built in"))
            self._text.setText(tr("The presets for this computer use it; nothing to download."))
            self._state.setText(tr("Everything is installed"))
            self._button.hide()
            return
        files = {file.id: file for package in packages for file in package.files}
        parts = [model_labels.full_title(file) for file in files.values()]
        if runtime is not None:
            parts.append(runtime_labels.title_of(runtime))
        self._title.setText(
            tr("Recommended for {gpu}", gpu=self._presets.card or tr("this computer"))
        )
        self._text.setText(tr("Balanced and Best use: {parts}", parts=" · ".join(reversed(parts))))
        lacks = runtime is not None or any(package.lacking for package in packages)
        runs = any(file in self._files.running for file in files) or self._runtimes.is_running
        self._state.setText(
            tr("Downloading") if runs else _sizes(files.values(), runtime, lacks=lacks)
        )
        self._button.setText(tr("Download missing files"))
        self._button.setVisible(lacks)
        self._button.setEnabled(not runs)

    def _runtime(self) -> RuntimeState | None:
        """The one that is to be downloaded, also for a broken one."""
        status = self._runtimes.status
        if status.situation is Situation.BROKEN and status.runtime is not None:
            return status.runtime if can_repair(status.runtime) else None
        is_offered = status.situation in (Situation.OFFER, Situation.PARTIAL)
        return status.runtime if is_offered else None

    def _show_problem(self) -> None:
        is_broken = self._runtimes.status.situation is Situation.BROKEN
        self._problem.setVisible(is_broken)
        if is_broken:
            said = runtime_labels.message(self._runtimes)
            self._problem.show_message(said.severity, said.title, said.text)

    def _get(self) -> None:
        runtime = self._runtime()
        for package in recommended(self._presets.presets, self._files):
            if package.lacking:
                self.get_requested.emit(package.main.id)
        if runtime is not None:
            self.runtime_requested.emit("download", runtime.id)

    def _lay_out(self) -> None:
        self._title.setProperty("kind", "title")
        self._text.setWordWrap(True)
        self._button.setProperty("kind", "primary")
        self._state.setProperty("kind", "secondary")
        texts = QVBoxLayout()
        for part in (self._title, self._text, self._problem, self._state):
            texts.addWidget(part)
        row = QHBoxLayout(self)
        row.setContentsMargins(14, 10, 14, 10)
        row.addLayout(texts, 1)
        row.addWidget(self._button)


def _sizes(files: Collection[PublishedState], runtime: RuntimeState | None, *, lacks: bool) -> str:
    """Bytes of all parts, and how many of them are here."""
    total = sum(map(size_of, files))
    here = sum(map(size_of, (file for file in files if file.is_here)))
    here += sum(file.done_bytes for file in files if file.state == "partial")
    if runtime is not None:
        total += runtime_size(runtime)
        here += runtime.done_bytes if runtime.state == "partial" else 0
    if not lacks:
        return f"{tr('Everything is installed')} · {bytes_text(total)}"
    if not here:
        return tr("{size} total", size=bytes_text(total))
    return tr("{here} of {total} downloaded", here=bytes_text(here), total=bytes_text(total))
