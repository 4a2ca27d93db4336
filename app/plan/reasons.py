"""Why a plan is as it is: a fold with the reason, what was chosen, and one step more or less."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt
from PySide6.QtWidgets import QGridLayout, QLabel, QPushButton, QScrollArea, QVBoxLayout, QWidget

from app import labels
from app.engine_messages import hint, said, text
from app.i18n import tr
from app.theme.icons import icon
from engine.core.units import memory_text
from engine.protocol.plan import Alternative, Plan, Reasons

_LEAST, _REST = 132, 600  # px of the fold at least; of the window, for everything else


class WhyFold(QWidget):
    """A button, and below it the reasons; hidden for plans that give none."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._plan: Plan | None = None
        self._button = QPushButton()
        self._button.setObjectName("whyThisPlan")
        self._button.setProperty("kind", "link")
        self._button.setCheckable(True)
        self._scroll = QScrollArea()
        self._scroll.setObjectName("whyBody")
        self._scroll.setWidgetResizable(True)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setVisible(False)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        column.addWidget(self._button, 0, Qt.AlignmentFlag.AlignLeft)
        column.addWidget(self._scroll)
        self._button.toggled.connect(self._unfold)

    def show_plan(self, plan: Plan) -> None:
        """Show another plan; the fold stays as it is."""
        self._plan = plan
        self.setVisible(plan.reasons is not None)
        self._button.setText(tr("Why this plan"))
        is_open = self._button.isChecked()
        self._button.setIcon(icon("chevron-up" if is_open else "chevron-down", size=14))
        if is_open and plan.reasons is not None:
            self._scroll.setWidget(_body(plan, plan.reasons))
            self._fit()

    def unfold(self) -> None:
        """Show the reasons."""
        self._button.setChecked(True)

    def changeEvent(self, event: QEvent) -> None:
        """Follow the language and the theme."""
        super().changeEvent(event)
        wanted = (QEvent.Type.LanguageChange, QEvent.Type.StyleChange)
        if event.type() in wanted and self._plan is not None:
            self.show_plan(self._plan)

    def _unfold(self, is_open: bool) -> None:
        self._scroll.setVisible(is_open)
        if self._plan is not None:
            self.show_plan(self._plan)

    def _fit(self) -> None:
        """As high as the words, as far as the choices above keep some room."""
        body, width = self._scroll.widget(), max(self.width(), 200)
        wanted = body.heightForWidth(width - 12) + 4
        self._scroll.setFixedHeight(min(wanted, max(_LEAST, self.window().height() - _REST)))


def _body(plan: Plan, reasons: Reasons) -> QWidget:
    body = QWidget()
    body.setObjectName("scrolled")
    column = QVBoxLayout(body)
    column.setContentsMargins(0, 0, 10, 0)
    column.setSpacing(4)
    column.addWidget(_wrapped(text(reasons.as_message)))
    if reasons.alternatives:
        column.addSpacing(4)
        column.addWidget(_heading(tr("One step away")))
        column.addLayout(_steps(plan, reasons.alternatives))
    if reasons.choices:
        column.addSpacing(4)
        column.addWidget(_heading(tr("What was chosen")))
    for choice in reasons.choices:
        line = _wrapped(text(choice), "secondary")
        line.setToolTip(hint(choice))
        column.addWidget(line)
    column.addStretch(1)
    return body


def _steps(plan: Plan, alternatives: tuple[Alternative, ...]) -> QGridLayout:
    grid = QGridLayout()
    grid.setHorizontalSpacing(10)
    grid.setVerticalSpacing(6)
    grid.setColumnStretch(0, 1)
    for at, step in enumerate(alternatives):
        grid.addWidget(_wrapped(said(step.message), "secondary"), at, 0)
        figures = QLabel(_figures(plan, step))
        figures.setProperty("kind", "small" if step.fits else "secondary")
        figures.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignTop)
        grid.addWidget(figures, at, 1, Qt.AlignmentFlag.AlignTop)
    return grid


def _figures(plan: Plan, step: Alternative) -> str:
    """What a step needs and how much longer it takes, in two lines."""
    size = memory_text(step.device_bytes if plan.device_bytes else step.ram_bytes)
    if not step.fits and step.device_bytes <= plan.device_budget_bytes:
        return f"{memory_text(step.ram_bytes)}\n{tr('main memory: does not fit')}"
    if not step.fits:
        return f"{size}\n{tr('does not fit')}"
    return f"{size}\n{labels.difference(step.seconds - plan.seconds)}"


def _heading(title: str) -> QLabel:
    label = QLabel(title)
    label.setProperty("kind", "section")
    return label


def _wrapped(line: str, kind: str = "small") -> QLabel:
    label = QLabel(line)
    label.setProperty("kind", kind)
    label.setWordWrap(True)
    return label
