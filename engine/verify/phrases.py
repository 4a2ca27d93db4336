"""Messages of several parts: the first few in full, the rest as a number."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from engine.core.messages import Message, message

MOST = 3  # parts in full


def clauses(parts: Sequence[Message]) -> Message:
    """Parts of one sentence: "Frame 3 is missing; Frame 7 is shown twice; and 4 more"."""
    return reduce(lambda one, other: message("list.clauses", first=one, next=other), _few(parts))


def sentences(parts: Sequence[Message]) -> Message:
    """Whole sentences, one after the other."""
    return reduce(lambda one, other: message("list.sentences", first=one, next=other), _few(parts))


def alternatives(values: Sequence[str | Message]) -> str | Message:
    """Any of some values: "tv or pc"."""
    found = values[0]
    for value in values[1:]:
        found = message("list.alternatives", first=found, next=value)
    return found


def _few(parts: Sequence[Message]) -> list[Message]:
    rest = len(parts) - MOST
    more = [message("list.more", count=rest)] if rest > 0 else []
    return [*parts[:MOST], *more]
