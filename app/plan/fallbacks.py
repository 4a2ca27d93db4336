"""What a refusal offers: other choices that would fit, as buttons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.engine_messages import choice_text
from app.i18n import tr
from engine.core.errors import SettingsError
from engine.protocol.plan import Notice
from engine.settings.assignments import with_text
from engine.settings.schema import JobSettings, model_family

PARAM = "offers"  # of a refusal: "height=1080,width=0;model=lite", the most helpful first
_MOST = 3


@dataclass(frozen=True, slots=True)
class Offer:
    """One way out: what the button says, and what is chosen by it."""

    text: str
    values: dict[str, Any]


def offers_of(notice: Notice, settings: JobSettings) -> list[Offer]:
    """Buttons for a refusal; what this version does not know, or is chosen already, is left out."""
    found = []
    for text in notice.params.get(PARAM, "").split(";"):
        values = _values(text, settings)
        if values:
            found.append(Offer(words_of(values, settings), values))
    return found[:_MOST]


def words_of(values: dict[str, Any], settings: JobSettings) -> str:
    """What a button says that chooses values."""
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
    return tr("Choose automatically")


def _model(model: str) -> str:
    """Its name without where it comes from."""
    return "Lite" if model_family(model) == "lite" else choice_text("model", model)


def _values(text: str, settings: JobSettings) -> dict[str, Any]:
    """The settings of one offer that are not chosen already; {} where it cannot be read."""
    assignments = [part.strip() for part in text.split(",") if part.strip()]
    try:
        wanted = with_text(settings, assignments)
    except SettingsError:
        return {}
    names = [part.partition("=")[0].strip() for part in assignments]
    values = {name: getattr(wanted, name) for name in names}
    return values if wanted != settings else {}
