"""Names of the checks of a report, and of the reasons for a smaller plan."""

from __future__ import annotations

from app.i18n import mark, tr
from engine.protocol.report import Check

_CHECKS = {
    "readable": mark("The result can be read"),
    "frame-count": mark("Number of frames"),
    "frame-order": mark("Order of frames"),
    "time-stamps": mark("Time stamps"),
    "size": mark("Picture size"),
    "tags": mark("Colour tags"),
    "streams": mark("Sound, subtitles and other streams"),
    "stream-content": mark("Content of the other streams"),
    "sound-timing": mark("Sound in step with the picture"),
    "chapters": mark("Chapters"),
    "metadata": mark("Metadata"),
    "likeness": mark("Likeness to the source"),
    "black": mark("No black frames"),
}

_WHY = {
    "out-of-memory": mark("memory ran out"),
    "overflow": mark("the numbers grew too large"),
    "spilled": mark("memory spilled"),
}


def name_of(check: Check) -> str:
    """What a check looks at."""
    return tr(_CHECKS[check.code]) if check.code in _CHECKS else check.code


def why_changed(why: str) -> str:
    """Why a plan became smaller, as PlanDowngraded says it."""
    return tr(_WHY[why]) if why in _WHY else why
