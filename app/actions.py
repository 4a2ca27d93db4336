"""Commands of the window, each a QAction: text, icon, shortcut, whether it is possible now."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QAction, QKeySequence

from app.i18n import mark, tr
from app.theme.icons import icon


@dataclass(frozen=True, slots=True)
class _Spec:
    text: str
    icon: str = ""
    shortcuts: tuple[str, ...] = ()


SPECS = {
    "add_files": _Spec(mark("Add files …"), "add", ("Ctrl+O",)),
    "add_folder": _Spec(mark("Add folder …"), "folder", ("Ctrl+Shift+O",)),
    "start": _Spec(mark("Start"), "play", ("Ctrl+Return", "Ctrl+Enter")),
    "try_frame": _Spec(mark("Try this frame"), "", ("Ctrl+T",)),
    "try_seconds": _Spec(mark("Try 3 seconds"), "", ("Ctrl+Shift+T",)),
    "pause": _Spec(mark("Pause or resume"), "pause", ("Ctrl+P",)),
    "cancel": _Spec(mark("Cancel"), "cancel", ("Ctrl+.",)),
    "open_result": _Spec(mark("Open result"), "open", ("Ctrl+Shift+R",)),
    "show_in_folder": _Spec(mark("Show in folder"), "folder", ("Ctrl+E",)),
    "report": _Spec(mark("Verification report"), "check", ("Ctrl+I",)),
    "retry": _Spec(mark("Try again"), "retry", ("Ctrl+R",)),
    "run_again": _Spec(mark("Run again with other settings"), "copy", ("Ctrl+D",)),
    "move_up": _Spec(mark("Move up"), "up", ("Ctrl+Up",)),
    "move_down": _Spec(mark("Move down"), "down", ("Ctrl+Down",)),
    "remove": _Spec(mark("Remove from the queue"), "trash", ("Del",)),
    "clear_finished": _Spec(mark("Clear finished"), "check", ("Ctrl+Shift+Del",)),
    "undo": _Spec(mark("Undo removal"), "", ("Ctrl+Z",)),
    "models": _Spec(mark("Models"), "models", ("Ctrl+M",)),
    "bench": _Spec(mark("Speed test and benchmark"), "gauge", ("Ctrl+B",)),
    "machines": _Spec(mark("Computers"), "computers", ("Ctrl+K",)),
    "settings": _Spec(mark("Settings"), "settings", ("Ctrl+,",)),
    "log": _Spec(mark("Log"), "", ("Ctrl+L",)),
    "help": _Spec(mark("Help"), "", ("F1",)),
}
_OF_THE_LIST = ("remove",)  # their keys mean something else in other places
_OF_BUTTONS = (  # commands of buttons alone, which have texts of their own
    "accept",
    "download_start",
    "download_stop",
    "choices",
    "folder",
    "play",
    "rename",
    "restart",
    "result",
    "runtime",
    "show_log",
    "source",
)


class Actions(dict[str, QAction]):
    """Actions by name; a disabled one does nothing, however it is triggered."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__({name: QAction(parent) for name in (*SPECS, *_OF_BUTTONS)})
        for name, spec in SPECS.items():
            action = self[name]
            action.setObjectName(f"action-{name}")
            action.setShortcuts([QKeySequence(keys) for keys in spec.shortcuts])
            if name in _OF_THE_LIST:
                action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        self["log"].setCheckable(True)
        self.retranslate_ui()

    def retranslate_ui(self) -> None:
        """Texts in the current language, icons in the current theme."""
        for name, spec in SPECS.items():
            self[name].setText(tr(spec.text))
            if spec.icon:
                self[name].setIcon(icon(spec.icon))
