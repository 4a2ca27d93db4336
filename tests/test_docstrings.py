"""The first word of docstrings and of described arguments."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("engine", "app", "installer", "tools/windows_build", "tools/training/generated")
DESCRIBED = re.compile(r"(?:Args|Attributes):\n((?:[ ]{4}.*\n?|\n)+)")
FORBIDDEN = re.compile(r"(?:Of|That|Those|As|What|Where|The same|From|With|How)\b")


def beginnings(path: Path) -> Iterator[str]:
    """Texts that a reader sees first: docstrings, and what they say of each argument."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node) or ""
            yield docstring
            for section in DESCRIBED.findall(docstring):
                yield from re.findall(r"^ {4}[\w*, ]+: (.+)", section, re.MULTILINE)


def test_docstrings_begin_with_a_noun_or_a_verb() -> None:
    files = {file for top in PACKAGES for file in (ROOT / top).rglob("*.py")}
    assert len(files) > 500
    wrong = [
        f"{path}: {text}"
        for path in sorted(files)
        for text in beginnings(path)
        if FORBIDDEN.match(text)
    ]
    assert not wrong, "\n".join(wrong)
