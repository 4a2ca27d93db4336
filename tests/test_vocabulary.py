"""The words of docs/glossary.md: one word, one meaning, in names and in prose."""

from __future__ import annotations

import ast
import collections
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CODE = ("engine", "app", "installer", "tools", "tests")
DOCUMENTS = (
    *("docs", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"),
    "SECURITY.md",
)
# What a program printed at some time is left as it was.
RECORDED = {"docs/benchmarks/optimisations-cpu.md", "docs/benchmarks/h100.md"}
# This file lists the words.
NOT_SEARCHED = {*RECORDED, "tests/test_vocabulary.py"}

# Words of file and class names that are a metaphor, a pronoun or another field's word here.
NOT_IN_NAMES = """
leave around mistake mistakes in_use moment moments edges steps offers taps phases twin desk told
wish wishes way ways words places copies ledger flow walk reach siting likeness fill turn turns
wholeness quantiser lab spent bars replay tracked refused holder holders shelf somebody nobody link
talk needs halves said swap fitting
"""
FORBIDDEN_IN_NAMES = set(NOT_IN_NAMES.split())
FORBIDDEN = {
    "engine": FORBIDDEN_IN_NAMES | {"card", "cards", "form", "forms"},
    "app": FORBIDDEN_IN_NAMES | {"stage"},
}
# Forbidden words that are a term of their own here, with the reason.
ALLOWED_NAMES = {
    "PcieLink": "PCI Express calls it a link",
    "MemoryBars": "bars of a chart",
    "memory_bars": "bars of a chart",
    "FlowLayout": "a layout that flows, as Qt's example is called",
    "flow": "the same",
    "PairingWords": "words of a language, which users compare",
}

# Pattern -> what the field writes instead. Upper and lower case alike.
PHRASES = {
    r"nobody|somebody": "no user, another process, ...",
    r"told": "reported, given, shown",
    r"anew": "again, from scratch",
    r"beside": "next to, compared with, and",
    r"behind": "after",
    r"infinite or none": "NaN or infinite",
    r"what bears|is no more": "...",
    r"wish(es|ed)?": "request, option",
    r"desks?": "service",
    r"moments": "mean and log-variance; peaks",
    r"twins?": "PyTorch reference, NVENC encoder, console program",
    r"(plain|fast|both|either|same) forms?": "variant",
    r"numbers": "values, weights, dtype",
    r"number formats?": "dtype, precision",
    r"(was|were|been|is|has) loaded of|loaded so far|\w?B to load|go on loading": "download",
    r"cards?": "GPU",
    r"(nvidia|graphics|video|no) cards?|card's (memory|driver)": "GPU",
}
ON_SCREEN = r"cards?"  # what the window is made of: not searched for there
WINDOW = ("app/", "tests/app/", "tests/journeys/", "tools/screenshots/")
# A card is a thing on the screen, and numbers that are numbers. Then fields and keys of files, of
# `--json` and of the rows of benchmarks, which keep their names.
ALLOWED = re.compile(
    r"\b(job|plan|model) cards?\b|\bcard is a thing\b|title. of its card\b|heading of a card\b"
    r"|\b(random|whole|exact|three) numbers\b|\bnumbers of frames\b"
    r"|\"(cards?|beside|moments)\"|\bcard: str\b|\bcard=",
    re.IGNORECASE,
)


@cache
def files(place: str) -> list[Path]:
    """Python files and documents of a folder, or a document."""
    root = ROOT / place
    found = [root] if root.is_file() else [*root.rglob("*.py"), *root.rglob("*.md")]
    return sorted(path for path in found if path.relative_to(ROOT).as_posix() not in NOT_SEARCHED)


def words_of(name: str) -> set[str]:
    """Words of an identifier in snake or camel case, lower case."""
    return {part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)}


@cache
def text_of(path: Path) -> str:
    return path.read_text("utf-8")


@cache
def classes(path: Path) -> list[str]:
    nodes = ast.walk(ast.parse(text_of(path)))
    return [node.name for node in nodes if isinstance(node, ast.ClassDef)]


def lines_with(pattern: str, *places: str) -> list[str]:
    """Where a phrase occurs, with the line."""
    phrase = re.compile(rf"(?<![\w.-])({pattern})(?![\w-])", re.IGNORECASE)
    return [
        f"{path.relative_to(ROOT).as_posix()}:{number}: {line.strip()}"
        for place in places
        for path in files(place)
        if phrase.search(text_of(path))
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if phrase.search(line) and phrase.search(ALLOWED.sub("", line))
    ]


def test_names_of_files_and_classes_are_the_fields() -> None:
    wrong = {}
    for room in CODE:
        forbidden = FORBIDDEN.get(room, FORBIDDEN_IN_NAMES)
        for path in files(room):
            if path.suffix != ".py":
                continue
            for name in {path.stem, *classes(path)} - set(ALLOWED_NAMES):
                if found := (words_of(name) | {name}) & forbidden:
                    wrong[name] = f"{path.relative_to(ROOT)}: {name} ({', '.join(found)})"
    assert not wrong, "\n".join(wrong.values())


def test_a_class_name_exists_once_in_the_engine() -> None:
    found = collections.defaultdict(list)
    for path in files("engine"):
        for name in classes(path) if path.suffix == ".py" else ():
            found[name].append(path.relative_to(ROOT).as_posix())
    several = {name: paths for name, paths in found.items() if len(paths) > 1}
    assert not several


@pytest.mark.parametrize("pattern", PHRASES)
def test_code_and_documents_use_the_fields_words(pattern: str) -> None:
    found = lines_with(pattern, *CODE, *DOCUMENTS)
    if pattern == ON_SCREEN:
        found = [line for line in found if not line.startswith(WINDOW)]
    assert not found, f"write {PHRASES[pattern]}:\n" + "\n".join(found)
