"""The list of models: what each file is for, its state, and one button for each."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import (
    QDialog,
    QFileDialog,
    QHBoxLayout,
    QMessageBox,
    QPushButton,
    QScrollArea,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app import desktop
from app.i18n import tr
from app.installs import model_labels
from app.installs.file_rows import (
    GAP,
    SHARED,
    ColumnHeads,
    DownloadRow,
    Group,
    ImportRow,
    group_texts,
)
from app.installs.recommended import Recommended
from app.state.model_files_model import MB, ModelFilesModel, Package
from app.state.telemetry_model import TelemetryModel
from app.theme.icons import icon
from app.widgets.controls import Themed, is_confirmed
from app.widgets.notice_line import NoticeLine
from app.widgets.plain import Label, message_box
from app.widgets.reveal import bring_into_view
from app.window_place import resize_on_screen
from engine.core.units import bytes_text
from engine.protocol.model_file_state import is_library

_FOLDED, _UNFOLDED = QSize(900, 380), QSize(900, 660)
_ENDINGS = "*.safetensors *.gguf *.pt *.pth *.ckpt *.whl"


class ModelsPage(Themed, QDialog):
    """Shows the model of files; emits requests of the user. Stays open while films run."""

    get_requested = Signal(str)  # id of a file: it and what it cannot work without
    stop_requested = Signal(str)  # id of a file, or path of an import
    verify_requested = Signal(str)
    remove_requested = Signal(str)
    use_requested = Signal(str)
    import_requested = Signal(Path, str)  # file, "copy" or "link"
    refresh_requested = Signal()
    unfolded = Signal(bool)  # all files are shown, or no longer

    def __init__(
        self,
        model: ModelFilesModel,
        telemetry: TelemetryModel,
        recommended: Recommended,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setObjectName("modelsDialog")
        self.resize(_FOLDED)
        self.setMinimumSize(760, _FOLDED.height())
        self._model, self._telemetry = model, telemetry
        self.recommended = recommended
        self._all = QToolButton()
        self._all.setObjectName("allModels")
        self._all.setCheckable(True)
        self._all.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self._all.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._no_gpu = NoticeLine()
        self._no_gpu.setObjectName("noGpu")
        self._ids: tuple[tuple[str, str], ...] = ()
        self._rows: dict[str, DownloadRow] = {}
        self._groups: dict[str, Group] = {}
        self._imports: dict[str, ImportRow] = {}
        self._title, self._room, self._nothing = Label(), Label(), Label()
        self._foot = Label()
        self._import, self._again, self._close = QPushButton(), QPushButton(), QPushButton()
        self._import.setObjectName("importModelFile")
        self._again.setObjectName("refreshModelFiles")
        self._list = QWidget()
        self._list.setObjectName("scrolled")
        self._heads = ColumnHeads()
        self._lay_out()
        recommended.get_requested.connect(self.get_requested)
        recommended.get_requested.connect(self.unfold)  # the rows show how far it is, and errors
        self._all.toggled.connect(self._fold)
        self._all.toggled.connect(self.unfolded)
        self._fold(False)
        self._import.clicked.connect(self._ask_file)
        self._again.clicked.connect(self.refresh_requested)
        self._close.clicked.connect(self.close)
        model.changed.connect(self._show_all)
        model.progressed.connect(self._show_progress)
        telemetry.changed.connect(self._warn)
        self.retranslate_ui()

    def retranslate_ui(self) -> None:
        """All texts in the current language; rows follow by themselves."""
        self.setWindowTitle(tr("Models"))
        self._title.setText(tr("Models"))
        self._scroll.setAccessibleName(tr("Models"))
        self._all.setText(tr("All models"))
        self.recommended.show_all()
        self._import.setText(tr("Import file …"))
        self._import.setIcon(icon("folder", size=16))
        self._again.setText(tr("Refresh"))
        self._again.setIcon(icon("retry", size=16))
        self._close.setText(tr("Close"))
        self._foot.setText(
            tr(
                "Lite is built in and always available. Files in ComfyUI or Hugging Face folders "
                "are used in place. Without internet access, download a file on another computer "
                "and import it."
            )
        )
        self._heads.retranslate_ui()
        self._no_gpu.show_message(
            "warning",
            tr("SeedVR2 and Wan are made for NVIDIA GPUs, and this computer has none."),
            tr("On the CPU they are very slow; Lite is the better choice on this computer."),
        )
        self._warn()
        for model, group in self._groups.items():
            group.set_texts(*group_texts(model))
        self._show_all()

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

    def act(self, name: str, file: str) -> None:
        """A request of a row."""
        known = self._model.find(file)
        if known is None:
            return
        match name:
            case "get":
                self.get_requested.emit(file)
            case "add":
                self._ask_library()
            case "stop":
                self.stop_requested.emit(file)
            case "verify":
                self.verify_requested.emit(file)
            case "use":
                self.use_requested.emit(file)
            case "folder" if known.path is not None:
                desktop.show_in_folder(known.path)
            case "remove" if self.confirm_remove(self._model.package(known)):
                self.remove_requested.emit(file)

    def confirm_remove(self, package: Package) -> bool:
        """Ask before a removal; an external file only leaves the list."""
        file = package.main
        freed = bytes_text(file.bytes if file.is_here else file.done_bytes)
        if file.borrowed:
            details = tr("The file stays in its folder; Upreel only stops using it.")
        elif file.is_own or file.kind == "library":
            details = tr("This frees {size}. Upreel cannot download it again.", size=freed)
        else:
            details = tr("This frees {size}. It can be downloaded again.", size=freed)
        question = tr("Remove {name}?", name=model_labels.full_title(file))
        return is_confirmed(self, question, details, yes=tr("Remove"), no=tr("Keep"))

    def ask_mode(self, file: Path) -> str:
        """Whether to copy a file or to read it where it lies; "" for neither."""
        box = message_box(
            QMessageBox.Icon.Question,
            tr("Copy {name} to Upreel's folder?", name=file.name),
            tr("Used in place, it takes no extra space, but must stay there unchanged."),
            parent=self,
        )
        copy = box.addButton(tr("Copy"), QMessageBox.ButtonRole.AcceptRole)
        link = box.addButton(tr("Use in place"), QMessageBox.ButtonRole.AcceptRole)
        box.addButton(tr("Cancel"), QMessageBox.ButtonRole.RejectRole)
        box.setDefaultButton(copy)
        box.exec()
        clicked = box.clickedButton()
        return "copy" if clicked is copy else "link" if clicked is link else ""

    # Showing

    def _fold(self, is_open: bool) -> None:
        self._all.setArrowType(Qt.ArrowType.DownArrow if is_open else Qt.ArrowType.RightArrow)
        self._scroll.setVisible(is_open)
        self._space.setVisible(not is_open)
        if is_open:
            resize_on_screen(self, self.size().expandedTo(_UNFOLDED))

    def _show_all(self) -> None:
        self._room.setText(
            tr("{size} free on disk", size=bytes_text(self._model.free_mb * MB))
            if self._model.is_known
            else ""
        )
        self._nothing.setVisible(not self._model.files)
        self._nothing.setText(
            tr("The list of models cannot be read. See the log.")
            if self._model.is_known
            else tr("Checking installed files …")
        )
        self._all.setVisible(bool(self._model.files))
        self._heads.setVisible(bool(self._model.files))
        self._show_imports()
        found = self._found()
        requested = tuple((model, package.main.id) for model, package in found)
        before = {file for _, file in self._ids}
        if requested != self._ids:
            self._build(requested)
        for _, package in found:
            file = package.main.id
            self._rows[file].show_package(
                package, self._model.task_of(package), self._model.notices.get(file)
            )
        imported = [file for _, file in requested if file not in before] if before else []
        if imported and self.isVisible():
            self.reveal(imported[-1])

    def _warn(self) -> None:
        """Warn before gigabytes are downloaded: without a GPU they are of little use."""
        reading = self._telemetry.reading
        self._no_gpu.setVisible(reading is not None and reading.gpu is None)

    def _show_progress(self, name: str) -> None:
        """Only what the progress of one file changes."""
        if name in self._imports:
            self._imports[name].show_task(self._model.imports[name])
        for _, package in self._found():
            task = self._model.task_of(package)
            if task is not None and task.runs:
                self._rows[package.main.id].show_progress(task)

    def _found(self) -> list[tuple[str, Package]]:
        """Every package under its model, once; what transformers share stands below them."""
        found: dict[str, tuple[str, Package]] = {}
        for model in self._model.models:
            for package in self._model.packages(model):
                found.setdefault(package.main.id, (model, package))
        shared = [(SHARED, package) for package in self._model.shared]
        large = [pair for pair in found.values() if pair[1].main.kind == "dit"]
        return [*large, *shared, *(pair for pair in found.values() if pair not in large)]

    def _build(self, requested: tuple[tuple[str, str], ...]) -> None:
        """New rows: the engine knows other files than before."""
        self._ids = requested
        for group in self._groups.values():
            group.hide()
            group.deleteLater()
        self._groups, self._rows = {}, {}
        for model, file in requested:
            if model not in self._groups:
                group = self._groups[model] = Group()
                group.set_texts(*group_texts(model))
                self._groups_column.insertWidget(self._groups_column.count() - 1, group)
            row = self._rows[file] = DownloadRow(file)
            row.requested.connect(self.act)
            self._groups[model].add(row)
            row.show()
        for group in self._groups.values():
            group.show()  # now, not with the next event: a row may be brought into view at once

    def _show_imports(self) -> None:
        running = self._model.imports
        for path in [path for path in self._imports if path not in running]:
            line = self._imports.pop(path)
            line.hide()
            line.deleteLater()
        for path, task in running.items():
            if path not in self._imports:
                line = self._imports[path] = ImportRow(path)
                line.stop_requested.connect(self.stop_requested)
                line.dismissed.connect(self._model.dismiss)
                line.library_requested.connect(self._ask_library)
                self._top.addWidget(line)
            self._imports[path].show_task(task)

    def _ask_file(self) -> None:
        chosen, _ = QFileDialog.getOpenFileName(
            self,
            tr("Import model file"),
            "",
            f"{tr('Models')} ({_ENDINGS});;{tr('All files')} (*)",
        )
        path = Path(chosen)
        mode = "copy" if is_library(path) else self.ask_mode(path) if chosen else ""
        if mode:
            self.import_requested.emit(path, mode)

    def _ask_library(self) -> None:
        """Let the user choose the wheel of a library that is not here."""
        lacking = [f for f in self._model.files if f.kind == "library" and not f.is_here]
        names = " ".join(file.filename for file in lacking)
        chosen, _ = QFileDialog.getOpenFileName(
            self, tr("Library for community models"), "", f"{names} (*.whl)"
        )
        if chosen:
            self.import_requested.emit(Path(chosen), "copy")

    def _lay_out(self) -> None:
        self._title.setProperty("kind", "headline")
        for label in (self._room, self._foot, self._nothing):
            label.setProperty("kind", "secondary")
        self._foot.setWordWrap(True)
        self._nothing.setObjectName("noModels")
        self._close.setObjectName("closeModels")
        self._close.setDefault(True)  # else Enter would press the first button: gigabytes
        head = QHBoxLayout()
        head.setSpacing(GAP)
        head.addWidget(self._title)
        head.addWidget(self._room, 0, Qt.AlignmentFlag.AlignBottom)
        head.addStretch(1)
        head.addWidget(self._again)
        head.addWidget(self._import)
        self._top = QVBoxLayout()
        self._top.setSpacing(8)
        inner = self._groups_column = QVBoxLayout(self._list)
        inner.setContentsMargins(0, 0, 12, 0)
        inner.setSpacing(16)
        inner.addWidget(self._heads)
        inner.addStretch(1)
        self._scroll = QScrollArea()
        self._scroll.setWidgetResizable(True)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setWidget(self._list)
        foot = QHBoxLayout()
        foot.setSpacing(24)
        foot.addWidget(self._foot, 1)
        foot.addWidget(self._close, 0, Qt.AlignmentFlag.AlignBottom)
        column = QVBoxLayout(self)
        column.setContentsMargins(20, 16, 20, 16)
        column.setSpacing(10)
        column.addLayout(head)
        column.addWidget(self._no_gpu)
        column.addLayout(self._top)
        column.addWidget(self.recommended)
        column.addWidget(self._nothing)
        column.addWidget(self._all)
        column.addWidget(self._scroll, 1)
        self._space = QWidget()
        column.addWidget(self._space, 1)
        column.addLayout(foot)
        self._scroll.setFocus(Qt.FocusReason.OtherFocusReason)  # no focus ring before the first tab
