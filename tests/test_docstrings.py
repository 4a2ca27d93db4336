"""The first word of docstrings, of described arguments and of comments on fields."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("engine", "app", "installer", "tools")
DESCRIBED = re.compile(r"(?:Args|Attributes):\n((?:[ ]{4}.*\n?|\n)+)")
FORBIDDEN = re.compile(r"(?:Of|That|Those|As|What|Where|The same|From|With|How)\b")


def beginnings(path: Path) -> Iterator[str]:
    """Texts that a reader sees first: docstrings, descriptions of arguments and fields."""
    text = path.read_text("utf-8")
    lines = text.splitlines()
    for node in with_statements(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            fields = (one for one in node.body if isinstance(one, ast.AnnAssign))
            yield from filter(None, (described(field, lines) for field in fields))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node) or ""
            yield docstring
            for section in DESCRIBED.findall(docstring):
                yield from re.findall(r"^ {4}[\w*, ]+: (.+)", section, re.MULTILINE)


def with_statements(node: ast.AST) -> Iterator[ast.AST]:
    """A node and the statements below it, without expressions: most of a module, no docstrings."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from with_statements(child)


def described(field: ast.AnnAssign, lines: list[str]) -> str:
    """Comment on a field, at the end of its line or above it, as a sentence; "" without one."""
    _, is_there, comment = lines[(field.end_lineno or 0) - 1][field.end_col_offset :].partition("#")
    above = takewhile(lambda line: line.lstrip().startswith("#"), lines[field.lineno - 2 :: -1])
    first = comment if is_there else (list(above) or [""])[-1].lstrip(" #")
    return first.strip()[:1].upper() + first.strip()[1:]


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
