"""The strip at the bottom: the honest sentence, the plan in one line, the log."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QHBoxLayout, QLabel, QToolButton, QWidget

from app import labels
from app.engine_messages import choice_text
from app.i18n import tr
from app.latents.latent_labels import READINGS
from app.theme import tokens
from app.widgets.controls import ElidedLabel
from engine.protocol.plan import (
    DiffusionPlan,
    LatentPlan,
    Plan,
    WanPlan,
)


class FootStrip(QWidget):
    """Always visible."""

    def __init__(self, log_action: QAction, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("footStrip")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setFixedHeight(tokens.FOOT_HEIGHT)
        self._plan: Plan | None = None
        self._sentence = QLabel()
        self._sentence.setProperty("kind", "secondary")
        self._line = ElidedLabel()
        self._line.setProperty("kind", "secondary")
        self._line.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        log = QToolButton()
        log.setObjectName("logButton")
        log.setProperty("kind", "quiet")
        log.setDefaultAction(log_action)
        log.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextOnly)
        row = QHBoxLayout(self)
        row.setContentsMargins(16, 0, 8, 0)
        row.setSpacing(16)
        row.addWidget(self._sentence)
        row.addWidget(self._line, 1)
        row.addWidget(log)
        self.retranslate_ui()

    def show_plan(self, plan: Plan | None) -> None:
        """The plan of the selected job."""
        self._plan = plan
        self._line.setText(plan_line(plan) if plan is not None else "")

    def retranslate_ui(self) -> None:
        """All texts in the current language."""
        self._sentence.setText(
            tr("AI redraws detail. Look at faces and small text before you keep the result.")
        )
        self.show_plan(self._plan)

    def changeEvent(self, event: QEvent) -> None:
        """Follow the language."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.LanguageChange:
            self.retranslate_ui()


def plan_line(plan: Plan) -> str:
    """Engine, tiles and codec of a plan in one line."""
    model, picture = plan.model, plan.picture
    parts = latent_words(plan.latent) if plan.latent is not None else []
    parts.append(choice_text("model", model.model))
    if model.form:
        parts.append(choice_text("treatment", model.form))
    if model.diffusion is not None:
        parts += diffusion_words(model.diffusion)
    elif model.wan is not None:
        parts += wan_words(model.wan)
    elif model.tiles > 1:
        parts.append(
            tr(
                "{count} tiles of {size}, overlap {overlap}",
                count=model.tiles,
                size=f"{model.tile.width}×{model.tile.height}",
                overlap=model.overlap,
            )
        )
    codec = choice_text("codec", picture.codec)
    parts.append(tr("{codec} {bits} bit", codec=codec, bits=picture.bit_depth))
    parts.append(tr("{count} frames", count=plan.frames))
    return tr("Plan: {words}", words=" · ".join(parts))


def diffusion_words(plan: DiffusionPlan) -> list[str]:
    """Clips, tiles and strength of SeedVR2."""
    frames = 4 * plan.clip - 3 if plan.join == "latents" else plan.clip
    parts = [tr("clips of {count} frames", count=frames)]
    if plan.decode_tile is not None:
        parts.append(tr("decoded in tiles of {size}", size=labels.size(plan.decode_tile)))
    if plan.strength < 100:
        parts.append(tr("strength {percent} %", percent=plan.strength))
    return parts


def wan_words(plan: WanPlan) -> list[str]:
    """Tiles of Wan 2x; whole frames need no words."""
    parts = []
    if plan.encode_tile is not None:
        parts.append(tr("encoded in tiles of {size}", size=labels.size(plan.encode_tile)))
    if plan.decode_tile is not None:
        parts.append(tr("decoded in tiles of {size}", size=labels.size(plan.decode_tile)))
    return parts


def latent_words(plan: LatentPlan) -> list[str]:
    """What becomes of latents before anything else is done."""
    title, _ = READINGS["normalised" if plan.normalised else "raw"]
    parts = [tr("latents: {reading}", reading=tr(title))]
    if plan.decode_tile is not None:
        parts.append(tr("decoded in tiles of {size}", size=labels.size(plan.decode_tile)))
    return parts
