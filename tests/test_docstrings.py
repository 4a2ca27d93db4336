"""The first word of docstrings and of described arguments, where files have been rewritten."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Folders, without those in them.
REWRITTEN = """
app/bench app/bridge app/desktop app/help app/machines app/models app/runtimes app/settings
app/theme app/updates app/widgets engine/cli
engine/model_files engine/models/copy engine/models/lite engine/ops/colour engine/ops/kernels
engine/ops/norm engine/ops/transfer engine/runtimes engine/tiling engine/updates engine/verify
installer tools/training/generated tools/windows_build
"""
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


@pytest.mark.parametrize("folder", REWRITTEN.split())
def test_docstrings_begin_with_a_noun_or_a_verb(folder: str) -> None:
    files = sorted((ROOT / folder).glob("*.py"))
    assert files
    wrong = [
        f"{path}: {text}" for path in files for text in beginnings(path) if FORBIDDEN.match(text)
    ]
    assert not wrong, "\n".join(wrong)
