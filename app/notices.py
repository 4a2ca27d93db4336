"""Notices of a plan and checks of a report, translated by their code.

The engine says every sentence in English. Where a code is known here, the window says it in its
own language, with the engine's figures; else the English sentence is shown as it is.
"""

from __future__ import annotations

from app.i18n import mark, tr
from engine.plan import Notice
from engine.report import Check

_NOTICES: dict[str, str] = {}
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


def message_of(notice: Notice) -> str:
    """What a notice says, in the current language where its code is known."""
    known = _NOTICES.get(notice.code)
    if known is None:
        return tr(notice.message)
    try:
        return tr(known, **notice.params)
    except (KeyError, IndexError):
        return notice.message


def hint_of(notice: Notice) -> str:
    """What to do about a notice."""
    return tr(notice.hint) if notice.hint else ""


def name_of(check: Check) -> str:
    """What a check looks at."""
    return tr(_CHECKS[check.code]) if check.code in _CHECKS else check.code
