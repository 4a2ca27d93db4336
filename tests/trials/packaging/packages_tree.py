"""Hash of everything that the packages depend on: equal to that of the last pass, nothing changed.

It covers the scripts of installer/, of the Windows test build and of these trials, pyproject.toml,
main.py, the modules that start the program, test it and find its files, all icons, the names of all
resources and of data files next to our modules, and the names of all external modules that our
sources import: one that is missing in the frozen program breaks it. It does not cover the code of
models, pipeline and window; the tests do.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

RECORD = "tests/trials/packaging/packages_passed.json"
_PACKAGES = ("app", "engine")
_CONTENTS = (
    *("installer", "tools/windows_build", "tests/trials/packaging", "resources/icons"),
    *("main.py", "pyproject.toml", "app/smoke_test.py", "app/application.py", "app/__init__.py"),
    "app/jobs/file_suffixes.py",  # file types that the setup registers
    *("app/desktop", "engine/runtimes", "engine/delivery", "engine/__main__.py"),
    *("engine/core/paths.py", "engine/core/serialization.py"),
)
_SKIPPED_NAMES = {"__pycache__", ".DS_Store", Path(RECORD).name}
_SKIPPED_SUFFIXES = {".pyc", ".md"}


def tree_hash(root: Path) -> str:
    """SHA-256, in hex, of everything that the packages depend on.

    Args:
        root: The checkout; files that git does not track count as well.
    """
    found = hashlib.sha256()
    for line in _lines(root):
        found.update(line.encode() + b"\n")
    return found.hexdigest()


def imports(root: Path) -> set[str]:
    """External modules, those of the standard library too, that our sources import anywhere."""
    names: set[str] = set()
    for package in _PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_bytes())):
                if isinstance(node, ast.Import):
                    names.update(alias.name for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    names.add(node.module)
    return {name for name in names if name.partition(".")[0] not in (*_PACKAGES, "__future__")}


def _lines(root: Path) -> Iterator[str]:
    for name in _CONTENTS:
        if not (root / name).exists():
            raise FileNotFoundError(f"{name}, which the packages depend on, does not exist")
        for path in _files(root / name):
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            yield f"{path.relative_to(root).as_posix()} {digest}"
    data = (path for package in _PACKAGES for path in _files(root / package))
    for path in (*_files(root / "resources"), *data):
        if path.suffix != ".py":
            yield path.relative_to(root).as_posix()
    yield from sorted(imports(root))


def _files(path: Path) -> list[Path]:
    found = [path] if path.is_file() else sorted(path.rglob("*"))
    return [
        file
        for file in found
        if file.is_file()
        and not file.name.startswith("test_")
        and not _SKIPPED_NAMES & set(file.parts)
        and file.suffix not in _SKIPPED_SUFFIXES
    ]


if __name__ == "__main__":
    sys.stdout.write(f"{tree_hash(Path(__file__).resolve().parents[3])}\n")
