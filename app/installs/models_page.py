"""The page of models: what is recommended, every file with its state, and imports."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QFrame, QToolButton, QWidget

from app.bound import bind
from app.i18n import mark, tr
from app.installs import model_labels, runtime_labels
from app.installs.installable import (
    GAP,
    MORE_WIDTH,
    Group,
    InstallsPage,
    Message,
    PageSpec,
    Widths,
    problem,
    progress,
    show_message,
)
from app.state.listings import PresetsModel
from app.state.model_files_model import ModelFilesModel, Package, size_of
from app.state.runtimes_model import RuntimesModel, Situation, can_repair
from app.state.tasks_model import TaskState
from app.state.telemetry_model import TelemetryModel
from app.widgets.layouts import RIGHT, column, row
from app.widgets.meters import ShareBar
from app.widgets.notice_line import NoticeLine
from app.widgets.parts import bind_text, button, elided, label, named
from app.widgets.reveal import bring_into_view
from engine.core.errors import LibraryMissing
from engine.core.units import bytes_text
from engine.protocol.delivery import RuntimeState
from engine.protocol.model_file_state import PublishedState
from engine.settings.presets import Preset

_SPEC = PageSpec(
    name="models",
    title=mark("Models"),
    file=mark("Import file …"),
    foot=mark(
        "Lite and Lite Plus are built in and always available. Files in ComfyUI or Hugging Face "
        "folders are used in place. Without internet access, download a file on another computer "
        "and import it."
    ),
    foot_spacing=24,
    widths=Widths(facts=(72, 88), state=168, button=116),
    size=(900, 380),
    least=(760, 380),
)
_UNFOLDED = QSize(900, 660)
_GOALS = {"balanced", "best"}


class ModelsPage(InstallsPage):
    """The recommendation, then all files, folded away until the user opens them."""

    unfolded = Signal(bool)  # all files are shown, or no longer

    def __init__(
        self,
        model: ModelFilesModel,
        telemetry: TelemetryModel,
        recommends: tuple[PresetsModel, RuntimesModel],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(_SPEC, parent)
        self._model, self._telemetry = model, telemetry
        self._recommended = Recommended(model, *recommends, self)
        self._recommended.requested.connect(self._ask_recommended)
        self._all = named(QToolButton(), "allModels", "fold")
        self._all.setCheckable(True)
        self._all.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self._all.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        bind_text(self._all, self._all.setText, mark("All models"))
        self._no_gpu = named(NoticeLine(), "noGpu")
        self._nothing = label(kind="secondary", name="noModels")
        self._imports: dict[str, ImportRow] = {}
        self._top = column(spacing=8)
        self._heads, self._space = column_heads(), QWidget()
        self._inside.insertWidget(0, self._heads)
        above = (self._no_gpu, self._top, self._recommended, self._nothing, self._all)
        self.lay_out(above, ((self._space, 1),))
        self._all.toggled.connect(self._fold)
        self._all.toggled.connect(self.unfolded)
        self._fold(False)
        model.changed.connect(self._show)
        model.progressed.connect(self._show_progress)
        telemetry.changed.connect(self._warn)
        bind(self, self._warn)
        bind(self, self._show, theme=True)

    def unfold(self) -> None:
        """Show all files; they stay open."""
        self._all.setChecked(True)

    def reveal(self, file: str) -> None:
        """Open the list, scroll to a file and give its button the focus."""
        row = self._rows.get(file)
        if row is not None:
            self.unfold()
            bring_into_view(row)
            row.focus_button()

    def _fold(self, is_open: bool) -> None:
        self._all.setArrowType(Qt.ArrowType.DownArrow if is_open else Qt.ArrowType.RightArrow)
        self._scroll.setVisible(is_open)
        self._space.setVisible(not is_open)
        if is_open:
            self.resize_on_screen(self.size().expandedTo(_UNFOLDED))

    def _ask_recommended(self, action: str, subject: str) -> None:
        self.requested.emit(action, subject)
        if action == "download":
            self.unfold()  # the rows show progress and errors

    def _warn(self) -> None:
        """Warn before gigabytes are downloaded: without a GPU they are of little use."""
        self._no_gpu.show_message(
            "warning",
            tr("SeedVR2 and Wan are made for NVIDIA GPUs, and this computer has none."),
            tr("On the CPU they are very slow; Lite is the better choice on this computer."),
        )
        reading = self._telemetry.reading
        self._no_gpu.setVisible(reading is not None and reading.gpu is None)

    def _show(self) -> None:
        model = self._model
        self.show_room(model.free_mb if model.is_known else None)
        self._nothing.setVisible(not model.files)
        self._nothing.setText(
            tr("The list of models cannot be read. See the log.")
            if model.is_known
            else tr("Checking installed files …")
        )
        self._all.setVisible(bool(model.files))
        self._heads.setVisible(bool(model.files))
        self._show_imports()
        imported = self.show_groups(self._groups_of_files())
        if imported and self.isVisible():
            self.reveal(imported[-1])

    def _groups_of_files(self) -> list[Group]:
        """Packages by model, each once; what transformers share is below those."""
        model = self._model
        large, small, found = list[Group](), list[Group](), set[str]()
        for name in model.models:
            packages = [one for one in model.packages(name) if one.main.id not in found]
            found |= {package.main.id for package in packages}
            if packages:
                texts = model_labels.model_title(name), model_labels.model_text(name)
                kept = large if packages[0].main.kind == "dit" else small
                kept.append(self._group(*texts, packages))
        shared = tr("Used by all SeedVR2 models"), tr("Downloaded with the first model.")
        between = [self._group(*shared, model.shared)] if model.shared else []
        return [*large, *between, *small]

    def _group(self, title: str, about: str, packages: Sequence[Package]) -> Group:
        model = self._model
        items = (
            model_labels.item_of(one, model.task_of(one), model.notices.get(one.main.id))
            for one in packages
        )
        return Group(title=title, about=about, items=tuple(items))

    def _show_progress(self, name: str) -> None:
        """Only what the progress of one file changes."""
        if name in self._imports:
            self._imports[name].show_task(self._model.imports[name])
        for file in map(self._model.find, self._rows):
            task = self._model.task_of(self._model.package(file)) if file is not None else None
            if file is not None and task is not None and task.runs:
                self.show_progress(file.id, task)

    def _show_imports(self) -> None:
        running = self._model.imports
        for path in [path for path in self._imports if path not in running]:
            line = self._imports.pop(path)
            line.hide()
            line.deleteLater()
        for path, task in running.items():
            if path not in self._imports:
                line = self._imports[path] = ImportRow(path)
                line.requested.connect(self.requested)
                self._top.addWidget(line)
            self._imports[path].show_task(task)


def column_heads() -> QWidget:
    """Names of the columns, above them."""
    heads, widths = QWidget(), _SPEC.widths
    parts = [
        label("File", "secondary"),
        label("Size", "secondary", align=RIGHT),
        label("Licence", "secondary"),
        label("State", "secondary"),
    ]
    for part, width in zip(parts[1:], (*widths.facts, widths.state), strict=True):
        part.setFixedWidth(width)
    right = 9 + widths.button + MORE_WIDTH + 2 * GAP
    row((parts[0], 1), *parts[1:], spacing=GAP, margins=(15, 0, right, 0), on=heads)
    return heads


class ImportRow(QFrame):
    """Name, progress and Stop; or what is wrong with the file, and a way to what it lacks."""

    requested = Signal(str, str)  # "stop", "dismiss" or "add" (a library); path

    def __init__(self, path: str) -> None:
        super().__init__()
        named(self, "importLine", "card")
        self._path, self._action = path, "stop"
        self._name, self._figures = elided(kind="strong"), label(kind="secondary")
        self._bar, self._problem = ShareBar(), NoticeLine()
        self._bar.setFixedWidth(160)
        self._add = button(
            "Add library …", "addLibrary", on=lambda: self.requested.emit("add", path)
        )
        self._button = button(
            name="importButton", on=lambda: self.requested.emit(self._action, path)
        )
        parts = (self._figures, self._bar, self._add, self._button)
        head = row((self._name, 1), *parts, spacing=12)
        column(head, self._problem, margins=(14, 10), on=self)

    def show_task(self, task: TaskState) -> None:
        """Show how far the import is, or its error."""
        name, error = Path(self._path).name, task.error
        self._action = "stop" if task.runs else "dismiss"
        self._name.setText(tr("Importing {name}", name=name) if task.runs else name)
        self._figures.setText("" if task.waits else progress(task))
        self._bar.set_shares(task.share)
        self._bar.setAccessibleName(self._figures.text())
        for part in (self._bar, self._figures):
            part.setVisible(task.runs)
        self._button.setText(tr("Stop") if task.runs else tr("Close"))
        self._button.setAccessibleName(f"{self._button.text()}: {name}")
        self._add.setVisible(error is not None and error.code == LibraryMissing.code)
        show_message(self._problem, Message("refusal", *problem(error)) if error else None)


class Recommended(QFrame):
    """Models of the presets Balanced and Best on this GPU; one button downloads missing files."""

    requested = Signal(str, str)  # "download" and id of a file, "runtime" and id of a runtime

    def __init__(
        self,
        files: ModelFilesModel,
        presets: PresetsModel,
        runtimes: RuntimesModel,
        parent: QWidget,
    ) -> None:
        super().__init__(parent)
        named(self, "recommended", "card")
        self._files, self._presets, self._runtimes = files, presets, runtimes
        self._title, self._text = label(kind="title"), label(wraps=True)
        self._state = label(kind="secondary")
        self._problem = named(NoticeLine(), "recommendedProblem")
        self._button = button(name="getRecommended", kind="primary", on=self._get)
        texts = column(self._title, self._text, self._problem, self._state)
        row((texts, 1), self._button, margins=(14, 10), on=self)
        bind(self, self._show)
        for changed in (files.changed, presets.changed, runtimes.changed):
            changed.connect(self._show)

    def _show(self) -> None:
        presets = self._presets.presets
        self.setVisible(bool(presets and self._files.files))
        packages, runtime = recommended(presets, self._files), self._runtime()
        failed = self._failed(packages)
        show_message(self._problem, failed or self._doubt(runtime))
        if not packages:
            self._title.setText(tr("Recommended: Lite and Lite Plus, built in"))
            self._text.setText(tr("The presets for this computer use them; nothing to download."))
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
        self._button.setText(tr("Try again") if failed else tr("Download missing files"))
        self._button.setVisible(lacks)
        self._button.setEnabled(not runs)

    def _failed(self, packages: Sequence[Package]) -> Message | None:
        """Why the last download of a part failed: it was asked for here."""
        for package in packages:
            if error := self._files.error_of(package):
                return Message("refusal", *problem(error))
        task = self._runtimes.task
        has_failed = task is not None and task.error is not None
        return runtime_labels.message(self._runtimes) if has_failed else None

    def _doubt(self, runtime: RuntimeState | None) -> Message | None:
        """Why the runtime cannot be used, or might not work once it is downloaded."""
        if self._runtimes.status.situation in (Situation.BROKEN, Situation.BLOCKED):
            return runtime_labels.message(self._runtimes)
        risk = runtime_labels.risk_of(self._runtimes.listed) if runtime is not None else ""
        return Message("warning", risk) if risk else None

    def _runtime(self) -> RuntimeState | None:
        """The one that is to be downloaded, also for a broken one."""
        status = self._runtimes.status
        if status.situation is Situation.BROKEN and status.runtime is not None:
            return status.runtime if can_repair(status.runtime) else None
        is_offered = status.situation in (Situation.OFFER, Situation.PARTIAL)
        return status.runtime if is_offered else None

    def _get(self) -> None:
        runtime = self._runtime()
        for package in recommended(self._presets.presets, self._files):
            if package.lacking:
                self.requested.emit("download", package.main.id)
        if runtime is not None:
            self.requested.emit("runtime", runtime.id)


def recommended(presets: Sequence[Preset], files: ModelFilesModel) -> tuple[Package, ...]:
    """Packages of these presets, each once; none where they use built-in models."""
    found: dict[str, Package] = {}
    for preset in presets:
        if not _GOALS.isdisjoint(preset.goals):
            package = _package(preset, files)
            if package is not None:
                found.setdefault(package.main.id, package)
    return tuple(found.values())


def _package(preset: Preset, files: ModelFilesModel) -> Package | None:
    """The file that suits the GPU, or another one that is installed, as in a plan."""
    model = str(preset.changes.get("model", "auto"))
    model = preset.automatic if model == "auto" else model
    precision = str(preset.changes.get("precision", "auto"))
    package = files.best_package(model, precision)
    suited = files.best_package(model, preset.precision or precision)
    if precision != "auto" or package is None or suited is None:
        return package
    return suited if suited.is_complete or not package.main.is_here else package


def _sizes(files: Collection[PublishedState], runtime: RuntimeState | None, *, lacks: bool) -> str:
    """Bytes of all parts, and how many of them are here."""
    total = sum(map(size_of, files))
    here = sum(map(size_of, (file for file in files if file.is_here)))
    here += sum(file.done_bytes for file in files if file.state == "partial")
    if runtime is not None:
        total += runtime.bytes
        here += runtime.done_bytes if runtime.state == "partial" else 0
    if not lacks:
        return f"{tr('Everything is installed')} · {bytes_text(total)}"
    if not here:
        return tr("{size} total", size=bytes_text(total))
    return tr("{here} of {total} downloaded", here=bytes_text(here), total=bytes_text(total))
