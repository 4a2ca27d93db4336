"""Sentences of the engine in the current language.

The engine says everything in English, figures and names included. The catalogue has its sentences
with `{name}` in the places of those: a sentence is recognised and said anew with its values.
"""

from __future__ import annotations

import functools
import re

from PySide6.QtCore import QCoreApplication

from app.i18n import read_engine_sentences, tr

_PLACE = re.compile(r"\\\{(\w+)\\\}")


def said(sentence: str) -> str:
    """A sentence of the engine in the current language; English where it is not translated."""
    language = QCoreApplication.instance().property("language") or "en"
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
