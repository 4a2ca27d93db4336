"""Messages for users: the engine gives a code and values, a catalogue per language has the text.

`resources/messages/<language>.toml` holds a table for each code. An entry has a `text` and may have
a `hint` (what to do next), a `title` (heading of a card) and a `button`. `{name}` stands for a
value. `{count:frame|frames}` stands for the first form if the value is 1, else for the second.
`{interface:--model lite|model="lite"|Lite}` has the words for users of the command line, of Python
and of the window; with two forms, the first is for both that type. All read the same catalogue.
"""

from __future__ import annotations

import functools
import logging
import re
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

from engine.core import paths
from engine.core.plain_text import one_line

logger = logging.getLogger(__name__)

LANGUAGES = ("en", "zh_CN")
_FALLBACK = LANGUAGES[0]
FIELDS = ("text", "hint", "title", "button")
Part = Literal["text", "hint", "title"]
Interface = Literal["command-line", "python", "window"]
_FORMS: dict[Interface, int] = {"command-line": 0, "python": -2, "window": -1}


@dataclass(frozen=True, slots=True)
class Message:
    """A message by its code, with the values of its placeholders.

    Attributes:
        code: Path of its table in the catalogue: "disk-full.while-writing".
        params: Values by placeholder. A text is foreign: it is shown as plain text in one line. A
            message as a value is rendered in the same language; a tuple becomes a list in it.
        part: Field of the entry that is rendered: a message may carry the hint of another one.
    """

    code: str
    params: dict[str, Param] = field(default_factory=dict)
    part: Part = "text"

    @property
    def hint(self) -> Message:
        """Advice on what to do next, with the same values; "" where the entry has no hint."""
        return replace(self, part="hint")

    def __str__(self) -> str:
        """Text in English, for logs, tests and the command line."""
        return text_of(self)


Param = str | Message | tuple[str | Message, ...]


class HasMessage(ABC):
    """Something that the catalogue has a message for: an error, a notice."""

    __slots__ = ()

    @property
    @abstractmethod
    def as_message(self) -> Message:
        """The message of the catalogue."""

    @property
    def message(self) -> str:
        """The sentence in English."""
        return text_of(self.as_message)

    @property
    def hint(self) -> str:
        """Advice on what to do next, in English; "" where there is nothing to do."""
        return hint_of(self.as_message)


def title(code: str) -> Message:
    """The title of an entry, as a message."""
    return Message(code, part="title")


def message(code: str, /, **params: object) -> Message:
    """A message; values that are neither text nor messages become text."""
    return Message(code, {name: _param(value) for name, value in params.items()})


def _param(value: object) -> Param:
    if isinstance(value, (str, Message)):
        return value
    if isinstance(value, tuple):
        return tuple(one if isinstance(one, Message) else str(one) for one in value)
    return str(value)


MOST_PARTS = 3  # of a message of several, in full; the others are counted


def clauses(parts: Sequence[Message]) -> Message:
    """Parts of one sentence: "Frame 3 is missing; Frame 7 is shown twice; and 4 more"."""
    return functools.reduce(
        lambda one, other: message("list.clauses", first=one, next=other), _few(parts)
    )


def sentences(parts: Sequence[Message]) -> Message:
    """Whole sentences, one after the other."""
    return functools.reduce(
        lambda one, other: message("list.sentences", first=one, next=other), _few(parts)
    )


def alternatives(values: Sequence[str | Message]) -> str | Message:
    """Any of some values: "tv or pc"."""
    found = values[0]
    for value in values[1:]:
        found = message("list.alternatives", first=found, next=value)
    return found


def _few(parts: Sequence[Message]) -> list[Message]:
    rest = len(parts) - MOST_PARTS
    more = [message("list.more", count=rest)] if rest > 0 else []
    return [*parts[:MOST_PARTS], *more]


class Value(str):
    """Value of a placeholder, which may choose between the words for one and for several."""

    __slots__ = ()

    def __format__(self, forms: str) -> str:
        one, bar, several = forms.partition("|")
        return str(self) if not bar else one if self == "1" else several


class _Form(str):
    """An interface, which chooses between the words for each."""

    __slots__ = ()

    def __format__(self, forms: str) -> str:
        return forms.split("|")[_FORMS[cast(Interface, str(self))]]


class MessageCatalogue:
    """The messages of one language for one interface; what it lacks is taken from English.

    Memory: 1 MB a language, for all interfaces together, if all of its tables are needed.
    """

    def __init__(self, language: str, interface: Interface) -> None:
        self.language = language
        self._form = _Form(interface)
        is_whole = language == _FALLBACK
        self._fallback = self if is_whole else catalogue(_FALLBACK, interface)

    def text(self, message: Message) -> str:
        """A message as text; its code where the catalogue has none."""
        if message.part == "hint":
            return self.hint(message)
        if message.part == "title":
            return self.title(message.code)
        found = self._get(message.code, "text")
        if not found:
            logger.error("no text for the message %s", message.code)
            return message.code
        return self._filled(found, message)

    def has_text(self, code: str) -> bool:
        """Whether there is a sentence for a code."""
        return bool(self._get(code, "text"))

    def hint(self, message: Message) -> str:
        """Advice on what to do next; "" where the entry has no hint."""
        return self._filled(self._get(message.code, "hint"), message).strip()

    def title(self, code: str) -> str:
        """Heading of a code, or of the nearest table above it that has one."""
        return self._nearest(code, "title")

    def button(self, code: str) -> str:
        """Text of the button that helps, from the nearest table; "" where there is none."""
        return self._nearest(code, "button")

    def _get(self, code: str, name: str) -> str:
        """A field of an entry; the English one if this language has none."""
        found = _read(self.language, code.partition(".")[0]).get(code, {}).get(name, "")
        return found if found or self is self._fallback else self._fallback._get(code, name)

    def _nearest(self, code: str, name: str) -> str:
        while code and not (found := self._get(code, name)):
            code = code.rpartition(".")[0]
        return found if code else ""

    def _filled(self, text: str, message: Message) -> str:
        if "{" not in text:
            return text
        values: dict[str, str] = {"interface": self._form}
        values |= {name: Value(self._value(value)) for name, value in message.params.items()}
        try:
            return text.format_map(values)
        except (KeyError, IndexError, ValueError):
            logger.exception("the message %s cannot be filled with %s", message.code, values)
            return text

    def _value(self, value: Param) -> str:
        if isinstance(value, Message):
            return self.text(value)
        if isinstance(value, tuple):
            return self.text(Message("list.separator")).join(map(self._value, value))
        text = one_line(value)
        is_size = self._form == "window" and re.fullmatch(r"\d+x\d+", text)
        return text.replace("x", "×") if is_size else text  # typed with "x" elsewhere


@functools.cache
def catalogue(language: str, interface: Interface) -> MessageCatalogue:
    """The catalogue of a language; the English one where there is no file for it."""
    return MessageCatalogue(language if language in LANGUAGES else _FALLBACK, interface)


_interface: Interface = "python"


@contextmanager
def for_command_line() -> Iterator[None]:
    """Inside, this process writes for users of the command line, else for those of Python."""
    global _interface
    before, _interface = _interface, "command-line"
    try:
        yield
    finally:
        _interface = before


def text_of(message: Message, language: str = _FALLBACK) -> str:
    """A message as text in a language."""
    return catalogue(language, _interface).text(message)


def hint_of(message: Message, language: str = _FALLBACK) -> str:
    """The hint of a message in a language; "" where it has none."""
    return catalogue(language, _interface).hint(message)


def has_text(code: str) -> bool:
    """Whether there is a sentence for a code."""
    return catalogue(_FALLBACK, _interface).has_text(code)


@contextmanager
def added(folder: Path) -> Iterator[None]:
    """Inside, the catalogues of another folder count too: for tests of families of models."""
    _added.append(folder)
    _read.cache_clear()
    try:
        yield
    finally:
        _added.remove(folder)
        _read.cache_clear()


_added: list[Path] = []


def read_entries(language: str) -> dict[str, dict[str, str]]:
    """Code to the fields of its entry, of one language; without files that cannot be read."""
    tables = {table: None for path in _files(language) for table in _tables_of(path)}
    return {code: entry for table in tables for code, entry in _read(language, table).items()}


def _files(language: str) -> list[Path]:
    return [folder / f"{language}.toml" for folder in (paths.resource("messages"), *_added)]


@functools.cache
def _read(language: str, table: str) -> Mapping[str, dict[str, str]]:
    """Entries of one outer table, read when needed: all together would take 30 ms of each start."""
    found: dict[str, dict[str, str]] = {}
    for path in _files(language):
        try:
            found |= _entries(tomllib.loads(_tables_of(path).get(table, "")), "")
        except ValueError as err:
            logger.error("%s cannot be read: %s", path.name, err)
    return found


@functools.cache
def _tables_of(path: Path) -> Mapping[str, str]:
    """The outer tables of a file by name, as TOML."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as err:
        logger.error("%s cannot be read: %s", path.name, err)
        return {}
    found: dict[str, str] = {}
    for part in re.split(r"^(?=\[)", text, flags=re.MULTILINE)[1:]:
        name = part[1:].partition("]")[0].partition(".")[0]
        found[name] = found.get(name, "") + part
    return found


def _entries(table: Mapping[str, Any], code: str) -> Iterator[tuple[str, dict[str, str]]]:
    own = {name: value for name, value in table.items() if name in FIELDS}
    if own:
        yield code, own
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _entries(value, f"{code}.{name}" if code else name)
