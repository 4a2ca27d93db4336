"""Documents name only paths, modules, commands and rows of imports that exist."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]
# What a program printed at some time is left as it was.
RECORDED = {"docs/benchmarks/optimisations-cpu.md"}
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")),
    ROOT / "installer" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
TOP = r"(?:app|docs|engine|installer|resources|tests|tools|\.github|\.ci)"
PATH = re.compile(rf"(?<![\w./~-])({TOP}/[\w./*-]+)")
MODULE = re.compile(r"python3? -m ([a-z_]\w*(?:\.\w+)*)")
FILE = re.compile(r"`([\w./-]+\.(?:py|cu|toml|svg|nsi|spec))`")
LINK = re.compile(r"\]\(([^)#:]+)\)")
MADE = ("docs/notes/",)  # written for a release


def lines() -> Iterator[tuple[Path, str, str]]:
    """Each line of a document: file, where it is, text."""
    for path in DOCUMENTS:
        name = path.relative_to(ROOT).as_posix()
        if name not in RECORDED:
            for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
                yield path, f"{name}:{number}", line


def exists(name: str) -> bool:
    """Whether a path of the repository exists; `engine/core/paths` may mean `paths.py`."""
    name = name.rstrip("./")
    found = any(ROOT.glob(name)) if "*" in name else (ROOT / name).exists()
    return found or (ROOT / f"{name}.py").exists() or name.startswith(MADE)


def test_paths_in_documents_exist() -> None:
    wrong = [
        f"{where}: {name}"
        for _, where, line in lines()
        for name in PATH.findall(line)
        if not exists(name)
    ]
    assert not wrong, "\n".join(wrong)


def test_files_in_documents_exist_somewhere() -> None:
    known = {
        path.relative_to(ROOT).as_posix()
        for top in ("app", "docs", "engine", "installer", "resources", "tests", "tools")
        for path in (ROOT / top).rglob("*.*")
    } | {path.name for path in ROOT.iterdir()}
    wrong = [
        f"{where}: {name}"
        for _, where, line in lines()
        for name in FILE.findall(line)
        if not any(f"/{path}".endswith(f"/{name}") for path in known)
    ]
    assert not wrong, "\n".join(wrong)


def test_links_in_documents_lead_somewhere() -> None:
    wrong = [
        f"{where}: {name}"
        for path, where, line in lines()
        for name in LINK.findall(line)
        if not (path.parent / name).exists()
    ]
    assert not wrong, "\n".join(wrong)


def test_modules_in_documents_can_be_run() -> None:
    ours = ("app", "engine", "installer", "tests", "tools")
    wrong = []
    for _, where, line in lines():
        for name in MODULE.findall(line):
            if name.split(".")[0] in ours:
                path = ROOT.joinpath(*name.split("."))
                if not (path.with_suffix(".py").exists() or (path / "__main__.py").exists()):
                    wrong.append(f"{where}: {name}")
            elif name not in ("venv", "pip", "pytest") and find_spec(name.split(".")[0]) is None:
                wrong.append(f"{where}: {name}")
    assert not wrong, "\n".join(wrong)


def test_the_architecture_shows_the_rows_that_the_linter_checks() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    layers = next(c["layers"] for c in contracts["contracts"] if c["name"] == "rows")
    rows = [{name.strip() for name in layer.split("|")} for layer in layers]
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    picture = text.split("## Rooms and rows")[1].split("```")[1]
    shown = []
    for line in picture.splitlines():
        rooms = re.findall(r"(\w+)(?:/|\.py)(?=\s)", line)
        if rooms and rooms != ["app"]:
            shown.append(set(rooms))
    assert shown == rows
