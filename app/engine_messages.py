"""Messages of the engine in the current language.

LEGACY: rooms that have not moved to the catalogue of messages give English sentences. `said`
recognises those by patterns with `{name}` for the values, and fills in the translation.
"""

from __future__ import annotations

import functools
import re

from PySide6.QtCore import QCoreApplication

from app.i18n import read_engine_sentences, tr
from engine.core.errors import ErrorInfo
from engine.core.messages import Message, catalogue, message
from engine.protocol.plan import Notice

_PLACE = re.compile(r"\\\{(\w+)\\\}")


def text(item: Message | ErrorInfo | Notice) -> str:
    """The sentence of a message, an error or a notice."""
    found = item if isinstance(item, Message) else item.as_message
    if isinstance(item, Message) or catalogue("en").has_text(found.code):
        return catalogue(_language()).text(found)
    return said(item.message)


def hint(item: ErrorInfo | Notice) -> str:
    """What to do next; "" where there is nothing to do."""
    if catalogue("en").has_text(item.as_message.code):
        return catalogue(_language()).hint(item.as_message)
    return said(item.hint)


def shown(item: Message | str) -> str:
    """A message, or an English sentence of a room that has not moved."""
    return said(item) if isinstance(item, str) else text(item)


def title(code: str) -> str:
    """Heading of a code."""
    return catalogue(_language()).title(code)


def button(code: str) -> str:
    """Text of the button that helps with an error; "" where there is none."""
    return catalogue(_language()).button(code)


def setting_title(name: str) -> str:
    """The name of a setting."""
    return title(f"setting.{name}")


def setting_text(name: str) -> str:
    """The description of a setting."""
    return text(message(f"setting.{name}"))


def choice_text(setting: str, value: str) -> str:
    """The name of a choice of a setting; the value itself where the catalogue has none."""
    code = f"choice.{setting}.{value}"
    return text(message(code)) if catalogue("en").has_text(code) else value


def choice_hint(setting: str, value: str) -> str:
    """What to know about a choice; "" where there is nothing."""
    return text(message(f"choice.{setting}.{value}").hint)


def _language() -> str:
    return QCoreApplication.instance().property("language") or "en"


def said(sentence: str) -> str:
    """A sentence of the engine in the current language; English where it is not translated."""
    language = _language()
    if language == "en" or not sentence:
        return sentence
    for pattern, translated in _sentences(language):
        match = pattern.fullmatch(sentence)
        if match is not None:
            return translated.format(**{k: said(v) for k, v in match.groupdict().items()})
    return tr(sentence)


@functools.lru_cache(maxsize=4)
def _sentences(language: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    """Patterns with their translations, those with the most fixed letters first."""
    found = read_engine_sentences(language)
    order = sorted(found, key=lambda text: -len(re.sub(r"\{\w+\}", "", text)))
    return tuple((pattern_of(text), found[text]) for text in order)


def pattern_of(sentence: str) -> re.Pattern[str]:
    """A pattern that recognises a sentence with any values in its places."""
    return re.compile(_PLACE.sub(r"(?P<\1>.+?)", re.escape(sentence)), re.DOTALL)
