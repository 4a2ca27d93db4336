"""What the packages depend on, as one hash: where it is that of the last pass, all was tried.

In it: everything under `installer/`, `pyproject.toml`, `main.py`, icons and the list of resources,
the modules that start, test and place the program, and the names of all modules that our sources
import from others, since one that is missing in the frozen program breaks it. Other sources are
not: a changed line of a model is what the tests are for.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

SEEN = "packages_seen.json"
_OURS = ("app", "engine")
_WHOLE = (
    *("installer", "resources/icons", "app/desktop", "engine/runtimes", ".ci"),
    *("main.py", "pyproject.toml", "app/smoke_test.py", "app/application.py", "app/__init__.py"),
    "app/jobs/file_suffixes.py",  # what the setup registers
    *(
        "engine/core/paths.py",
        "engine/core/windows_paths.py",
        "engine/core/serialization.py",
        "engine/__main__.py",
    ),
)
_NAMES_ALONE = "resources"
_PASSED_OVER = {"__pycache__", SEEN, ".DS_Store"}
_SUFFIXES_PASSED_OVER = {".pyc", ".md"}


def tree_hash(root: Path) -> str:
    """SHA-256, in hex, of all that the packages depend on.

    Args:
        root: The checkout; files that git does not know count as well.
    """
    found = hashlib.sha256()
    for line in _lines(root):
        found.update(line.encode() + b"\n")
    return found.hexdigest()


def imports(root: Path) -> set[str]:
    """Modules of others, standard ones included, that our sources import anywhere."""
    names: set[str] = set()
    for package in _OURS:
        for path in sorted((root / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_bytes())):
                if isinstance(node, ast.Import):
                    names.update(alias.name for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    names.add(node.module)
    return {name for name in names if name.partition(".")[0] not in (*_OURS, "__future__")}


def _lines(root: Path) -> Iterator[str]:
    for place in _WHOLE:
        if not (root / place).exists():
            raise FileNotFoundError(f"{place}, which the packages depend on, is not there")
        for path in _files(root / place):
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            yield f"{path.relative_to(root).as_posix()} {digest}"
    for path in _files(root / _NAMES_ALONE):
        yield path.relative_to(root).as_posix()
    yield from sorted(imports(root))


def _files(place: Path) -> list[Path]:
    found = [place] if place.is_file() else sorted(place.rglob("*"))
    return [
        path
        for path in found
        if path.is_file()
        and not _PASSED_OVER & set(path.parts)
        and path.suffix not in _SUFFIXES_PASSED_OVER
    ]


if __name__ == "__main__":
    sys.stdout.write(f"{tree_hash(Path(__file__).resolve().parents[2])}\n")
