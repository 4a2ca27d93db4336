"""Messages of the engine in the current language.

The engine gives messages by code; the catalogue of a language has their texts. Sentences of rooms
that have not moved to the catalogue are recognised by patterns (`said`).
"""

from __future__ import annotations

import functools
import re

from PySide6.QtCore import QCoreApplication

from app.i18n import read_engine_sentences, tr
from engine.core.errors import EngineError, ErrorInfo
from engine.core.messages import Message, MessageCatalogue, catalogue, message
from engine.protocol.plan import Notice

_PLACE = re.compile(r"\\\{(\w+)\\\}")


def text(what: Message | EngineError | ErrorInfo | Notice | str) -> str:
    """A message, an error or a notice in the current language."""
    if isinstance(what, str):
        return said(what)
    if isinstance(what, Message):
        return _catalogue().text(what)
    found = what.as_message
    return _catalogue().text(found) if _catalogue().has_text(found.code) else said(what.message)


def has_text(what: Message) -> bool:
    """Whether the catalogue has a text for a message."""
    return _catalogue().has_text(what.code)


def hint(what: EngineError | ErrorInfo | Notice) -> str:
    """What to do about an error or a notice, in the current language; "" without advice."""
    found = what.as_message
    return _catalogue().hint(found) if _catalogue().has_text(found.code) else said(what.hint)


def setting_title(name: str) -> str:
    """The name of a setting."""
    return _catalogue().title(f"setting.{name}")


def setting_text(name: str) -> str:
    """The description of a setting."""
    return _catalogue().text(message(f"setting.{name}"))


def choice_text(setting: str, value: str) -> str:
    """The name of a choice of a setting; the value itself where the catalogue has none."""
    code = f"choice.{setting}.{value}"
    return _catalogue().text(message(code)) if _catalogue().has_text(code) else value


def choice_hint(setting: str, value: str) -> str:
    """What to know about a choice; "" where there is nothing."""
    return _catalogue().hint(message(f"choice.{setting}.{value}"))


def _language() -> str:
    return QCoreApplication.instance().property("language") or "en"


def _catalogue() -> MessageCatalogue:
    return catalogue(_language())


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
