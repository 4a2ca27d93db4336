"""What a user should know about a plan: changes, refusals, findings, with choices that help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QApplication, QLabel, QLayout, QPushButton, QVBoxLayout, QWidget

from app.engine_messages import button, choice_text, hint, setting_title, text
from app.i18n import tr
from app.plan.download_lines import DownloadLines
from app.state.downloads_model import DownloadsModel, required_download
from app.state.job_row import Downgrade, JobRow
from app.widgets.controls import FlowLayout
from app.widgets.error_view import ACTION_OF
from app.widgets.notice_line import NoticeLine
from engine.core.errors import PlanDoesNotFit, PretendedGpu, SettingsError, WeightsMissing
from engine.core.messages import message
from engine.protocol.plan import Notice
from engine.settings.schema import JobSettings, model_family, with_text

PARAM = "offers"  # of a notice: "height=1080,width=0;model=lite", the most helpful first
_MOST = 3


@dataclass(frozen=True, slots=True)
class Offer:
    """Choices that help: text of the button, and values by setting."""

    text: str
    values: dict[str, Any]


def offers_of(notice: Notice, settings: JobSettings) -> list[Offer]:
    """Buttons for a notice; what this version does not know, or is chosen already, is left out."""
    found = []
    for offer in notice.params.get(PARAM, "").split(";"):
        values = _values(offer, settings)
        if values:
            title = offer_text(values, settings)
            is_meanwhile = notice.code == WeightsMissing.code
            found.append(Offer(tr("{text} now", text=title) if is_meanwhile else title, values))
    return found[:_MOST]


def offer_text(values: dict[str, Any], settings: JobSettings) -> str:
    """Text of a button that chooses values."""
    if "model" in values and values["model"] != "auto":
        return tr("Use {choice}", choice=_model(values["model"]))
    if values.get("width") and values.get("height"):
        return tr("Make it {size}", size=f"{values['width']}×{values['height']}")
    if values.get("height"):
        named = {2160: "4K"}.get(values["height"], f"{values['height']}p")
        return tr("Make it {size}", size=named)
    if "scale" in values or "height" in values:
        return tr("Make it {size}", size=f"×{values.get('scale', settings.scale)}")
    name, value = next(iter(values.items()))
    if name in ("precision", "matmul"):
        return tr("Use {choice}", choice=choice_text(name, str(value)))
    if value == "auto" and name != "deinterlace":
        return tr("Choose automatically")
    return tr("{setting}: {choice}", setting=setting_title(name), choice=choice_text(name, value))


def _model(model: str) -> str:
    """Its name without where it comes from."""
    return "Lite" if model_family(model) == "lite" else choice_text("model", model)


def _values(offer: str, settings: JobSettings) -> dict[str, Any]:
    """The settings of one offer that are not chosen already; {} where it cannot be read."""
    assignments = [part.strip() for part in offer.split(",") if part.strip()]
    try:
        requested = with_text(settings, assignments)
    except SettingsError:
        return {}
    names = [part.partition("=")[0].strip() for part in assignments]
    values = {name: getattr(requested, name) for name in names}
    return values if requested != settings else {}


PRETENDED = PretendedGpu.code  # shown by a chip
_MOST_NOTICES = 3
_SHOWN_ABOVE = (
    "trained-on-stills",  # shown next to the choice of the model: hint of `choice.model.wan-2x`
    PRETENDED,
)
_ORDER = {"refusal": 0, "warning": 1, "info": 2}


class PlanNotices(QWidget):
    """A few lines, each finding with buttons that help; for a refusal they are below all lines."""

    action_requested = Signal(str)  # what MainWindow.do takes
    choices_requested = Signal(dict)  # settings by name

    def __init__(self, downloads: DownloadsModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._films, self._failures = downloads.films, downloads.failures
        self._downloads = DownloadLines(downloads)
        self._lines = QVBoxLayout()
        self._lines.setSpacing(6)
        self._buttons = FlowLayout(spacing=6)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        column.addLayout(self._lines)
        column.addWidget(self._downloads)
        column.addLayout(self._buttons)

    def show_job(self, row: JobRow) -> None:
        """Show what is known about the plan of a job."""
        focus = QApplication.focusWidget()
        focused = focus.objectName() if focus is not None and self.isAncestorOf(focus) else ""
        _clear(self._lines)
        self._buttons.clear()
        if row.downgrades:
            self._lines.addWidget(_changed_line(row.downgrades))
        notices = (*(row.plan.notices if row.plan else ()), *row.warnings)
        self._downloads.show_job(row)
        found = [notice for notice in notices if notice.code not in _SHOWN_ABOVE]
        found.sort(key=_rank)
        shown = _worth_a_line(found)
        refusal = next((notice for notice in found if notice.severity == "refusal"), None)
        if row.job_id in (*self._films, *self._failures):  # the lines of the download say more
            shown, found = _without_missing(shown), _without_missing(found)
        hints = [hint(notice) for notice in shown]
        for at, notice in enumerate(shown):
            is_repeated = hints[at : at + 1] == hints[at + 1 : at + 2]
            self._lines.addWidget(_line(notice, "" if is_repeated else hints[at]))
            if refusal is None and row.state.can_change:
                self._lines.addLayout(self._remedies(notice, row, at))
        self._show_rest(found[len(shown) :])
        buttons = self._offer(refusal, row) if refusal is not None else ()
        self.setVisible(bool(found or refusal or row.downgrades))
        for one in buttons:
            if one.objectName() == focused:
                one.setFocus(Qt.FocusReason.OtherFocusReason)

    def _remedies(self, notice: Notice, row: JobRow, at: int) -> QLayout:
        """Buttons under a line that choose what helps."""
        buttons = FlowLayout(spacing=6)
        for number, offer in enumerate(offers_of(notice, row.settings)):
            button = self._offer_button(offer, f"planRemedy{at}_{number}")
            buttons.addWidget(button)
        return buttons

    def _show_rest(self, rest: list[Notice]) -> None:
        if not rest:
            return
        more = QLabel(tr("and {count} more", count=len(rest)))
        more.setProperty("kind", "secondary")
        more.setToolTip("\n".join(text(notice) for notice in rest))
        self._lines.addWidget(more)

    def _offer(self, refusal: Notice, row: JobRow) -> list[QPushButton]:
        """Buttons that help: choices that would fit, else what helps with such a refusal."""
        offers = offers_of(refusal, row.settings)
        buttons = [self._offer_button(offer, f"planOffer{at}") for at, offer in enumerate(offers)]
        action = ACTION_OF.get(refusal.code)
        if refusal.code == WeightsMissing.code and required_download(row):
            action = ""  # the main button downloads it
        if action and not (offers and action == "choices"):
            buttons.append(self._help_button(refusal, action))
        for one in buttons:
            self._buttons.addWidget(one)
        return buttons

    def _help_button(self, refusal: Notice, action: str) -> QPushButton:
        help_ = QPushButton(button(refusal.code))
        help_.setObjectName("planHelp")
        help_.clicked.connect(lambda: self.action_requested.emit(action))
        return help_

    def _offer_button(self, offer: Offer, name: str) -> QPushButton:
        button = QPushButton(offer.text)
        button.setObjectName(name)
        button.clicked.connect(lambda: self.choices_requested.emit(offer.values))
        return button


def _worth_a_line(found: list[Notice]) -> list[Notice]:
    """The first few; below a refusal nothing that is only good to know."""
    shown = found[:_MOST_NOTICES]
    is_refused = bool(shown) and shown[0].severity == "refusal"
    return [notice for notice in shown if not is_refused or notice.severity != "info"]


def _without_missing(notices: list[Notice]) -> list[Notice]:
    return [notice for notice in notices if notice.code != WeightsMissing.code]


def _rank(notice: Notice) -> tuple[int, bool]:
    """Refusals first, and of those what does not fit: no use in downloading a model for that."""
    return _ORDER[notice.severity], notice.code != PlanDoesNotFit.code


def _changed_line(downgrades: tuple[Downgrade, ...]) -> NoticeLine:
    """The last change in full; those before it are its tool tip."""
    last = downgrades[-1]
    if last.notice is None:
        line = NoticeLine("info", tr("another plan was chosen: {why}", why=_change(last)))
    else:
        line = NoticeLine("info", text(last.notice), hint(last.notice))
    line.setObjectName("planChanged")
    line.setToolTip("\n".join(map(_change, downgrades[:-1])))
    return line


def _change(downgrade: Downgrade) -> str:
    return text(downgrade.notice or message(f"reason.downgrade.{downgrade.why}"))


def _line(notice: Notice, hint: str) -> NoticeLine:
    """A notice; without commands that get missing files, as the button below downloads them."""
    if notice.code == WeightsMissing.code:
        return NoticeLine("info", text(notice))
    return NoticeLine(notice.severity, text(notice), hint)


def _clear(layout: QLayout) -> None:
    while layout.count():
        item = layout.takeAt(0)
        if item is None:
            continue
        if (inner := item.layout()) is not None:
            _clear(inner)
        if (widget := item.widget()) is not None:
            widget.hide()
            widget.deleteLater()
