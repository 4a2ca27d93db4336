"""An update in words, in the current language."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication

from app.i18n import mark, tr
from app.models.model_labels import progress as figures_of
from engine.core.units import bytes_text
from engine.protocol.update_messages import UpdateProgress, UpdateState

_DOING = {
    "check": mark("Asking which version is the newest …"),
    "download": mark("Downloading the setup …"),
    "install": mark("Checking the setup once more …"),
}
_INSTEAD = {
    "portable": mark(
        "This copy is an unpacked folder: get the new archive where you got this one, and unpack "
        "it in the place of this folder."
    ),
    "sources": mark("This copy runs from its sources: get the new ones where you got these."),
}


def headline(state: UpdateState) -> str:
    """What the page is about."""
    if state.newer:
        return tr("Upreel {version} is available", version=state.newer)
    return tr("Updates")


def about(state: UpdateState) -> str:
    """Date and size of the newer version, and the version that runs."""
    if not state.newer:
        return tr("You have Upreel {version}.", version=state.version)
    figures = {"date": state.date, "size": bytes_text(state.bytes), "version": state.version}
    return tr("Published on {date} · {size} · you have Upreel {version}", **figures)


def notes(state: UpdateState) -> str:
    """What is new in it, as Markdown; English where there is nothing in the language."""
    language = QCoreApplication.instance().property("language") or "en"
    return state.notes.get(language) or state.notes.get("en", "")


def instead(state: UpdateState) -> str:
    """What to do where no setup can update this copy; "" where one can."""
    return tr(_INSTEAD[state.installed_as]) if state.installed_as in _INSTEAD else ""


def doing(phase: str, progress: UpdateProgress | None) -> str:
    """What is being done, with figures where there are some."""
    if phase != "download" or progress is None or not progress.total_mb:
        return tr(_DOING[phase])
    return figures_of(progress)
