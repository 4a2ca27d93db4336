"""What is said of a .latent file, in the current language."""

from __future__ import annotations

from app import labels
from app.i18n import mark, tr
from app.models.model_labels import model_title
from engine.protocol.events import LatentRead
from engine.protocol.media import Reading

READINGS: dict[Reading, tuple[str, str]] = {
    "raw": (mark("As they are"), mark("As ComfyUI itself saves them")),
    "normalised": (mark("Normalised"), mark("As WanVideoWrapper saves them")),
}
_SURE: dict[Reading, str] = {
    "raw": mark("The numbers are spread like ComfyUI's own, so “As they are” is chosen."),
    "normalised": mark("The numbers are spread like normalised ones, so “Normalised” is chosen."),
}


def facts(read: LatentRead) -> str:
    """Model, channels, size and frames in one line."""
    parts = [
        model_title(read.model),
        tr("{count} channels", count=read.channels),
        labels.size(read.size),
        tr("{count} frames", count=read.frames) if read.frames > 1 else tr("one picture"),
    ]
    return " · ".join(parts)


def guess(read: LatentRead) -> tuple[str, str]:
    """How serious it is, and what was chosen beforehand and why."""
    if read.is_sure:
        return "info", tr(_SURE[read.guess])
    return "warning", tr("The numbers would suit both. Take the picture that looks right.")
