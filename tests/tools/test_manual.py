"""The manual says what the program says, and is built of what stands in its text."""

import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from app.help.view import groups
from app.i18n import LANGUAGES, read_catalogue
from engine.cli import parser
from engine.core import paths
from tests.app.test_i18n import texts_of_the_window
from tools import manual
from tools.screenshots.render import STATES

MOST_PAGES, MOST_BYTES = 10, 1_000_000
KEY = re.compile(r"(?:Ctrl\+(?:Shift\+)?.|F\d+)")
PLACE, VALUE, WORD = re.compile(r"\\{\w+\\}"), re.compile(r"\{[^}]*\}"), re.compile(r"\w\w")
pytestmark = pytest.mark.parametrize("language", LANGUAGES)


def texts(table: dict[str, Any]) -> Iterator[str]:
    """Titles, texts and buttons of the messages."""
    for value in table.values():
        if isinstance(value, dict):
            yield from texts(value)
        elif isinstance(value, str):
            yield value


texts_in_code = cache(texts_of_the_window)  # of all languages


def shown_texts(language: str) -> list[re.Pattern[str]]:
    """All that the window may show in a language; anything may stand in a place of a value."""
    translated = read_catalogue(language)
    shown = {translated.get(text, text) for text in texts_in_code()}
    messages = tomllib.loads(paths.resource("messages", f"{language}.toml").read_text("utf-8"))
    kept = (text for text in shown.union(texts(messages)) if WORD.search(VALUE.sub("", text)))
    return [re.compile(PLACE.sub(r"[\\w., ]+", re.escape(text))) for text in kept]


def bold(language: str) -> Iterator[str]:
    """Texts that the manual quotes from the window."""
    for block in manual.tokens(language):
        children = block.children or []
        for at, part in enumerate(children):
            if part.type == "strong_open":
                yield children[at + 1].content


def test_the_built_page_is_that_of_the_text(language):
    page = manual.folder(language) / "index.html"
    assert page.read_text("utf-8") == manual.html(language), "run python -m tools.manual"


def test_every_quoted_text_is_one_of_the_window(language):
    known = shown_texts(language)
    quoted = list(bold(language))
    assert len(quoted) > 50
    assert [text for text in quoted if not any(one.fullmatch(text) for one in known)] == []
    page = (manual.folder(language) / "index.html").read_text("utf-8")
    assert "**" not in page, "bold that Markdown did not see"


def test_every_picture_is_a_state_that_was_rendered_and_no_other_is_kept(language):
    named = manual.pictures(language)
    assert [name for name in named if name.partition("-")[0] not in STATES] == []
    kept = [file.stem for file in manual.folder(language).glob("*.webp")]
    assert sorted(kept) == sorted(named)
    assert sum(file.stat().st_size for file in manual.folder(language).iterdir()) < MOST_BYTES


def test_ten_pages_are_enough(qapp, language):
    assert manual.document(language).pageCount() <= MOST_PAGES


def test_the_languages_have_the_same_chapters_and_pictures(language):
    def outline(of: str) -> list[str]:
        made = manual.tokens(of)
        return [one.type for one in made if one.type.endswith("_open")] + manual.pictures(of)

    assert outline(language) == outline("en")


def test_every_key_is_one_of_the_program(qapp, language):
    text = (manual.SOURCES / f"{language}.md").read_text("utf-8")
    known = {name for keys in groups().values() for names, _ in keys for name in names.split(", ")}
    assert set(KEY.findall(text)) <= known


def test_every_command_can_be_parsed(language):
    text = (manual.SOURCES / f"{language}.md").read_text("utf-8")
    commands = [line for line in text.splitlines() if line.startswith("upreel-cli ")]
    assert len(commands) > 5
    for command in commands:
        parser.build().parse_args(shlex.split(command)[1:])
