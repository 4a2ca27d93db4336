"""Documents name only paths, modules, commands and layers of imports that exist."""

import re
import tomllib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

from tests.helpers.old_words import old_words

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")),
    *(ROOT / name for name in ("CODE_OF_CONDUCT.md", ".github/pull_request_template.md")),
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
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            yield path, f"{name}:{number}", line


def exists(name: str) -> bool:
    """Whether a path of the repository exists; `engine/core/paths` may mean `paths.py`."""
    name = name.rstrip("./")
    found = any(ROOT.glob(name)) if "*" in name else (ROOT / name).exists()
    return found or (ROOT / f"{name}.py").exists() or name.startswith(MADE)


def wrong_names(pattern: re.Pattern[str], is_right: Callable[[Path, str], bool]) -> str:
    """A line for each name in a document that is not right: is_right(document, name)."""
    return "\n".join(
        f"{where}: {name}"
        for path, where, line in lines()
        for name in pattern.findall(line)
        if not is_right(path, name)
    )


def test_paths_in_documents_exist() -> None:
    assert not wrong_names(PATH, lambda _, name: exists(name))


def test_files_in_documents_exist_somewhere() -> None:
    known = [f"/{path.relative_to(ROOT).as_posix()}" for path in ROOT.glob("*")]
    for top in ("app", "docs", "engine", "installer", "resources", "tests", "tools"):
        known += [f"/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / top).rglob("*.*")]
    assert not wrong_names(FILE, lambda _, name: any(p.endswith(f"/{name}") for p in known))


def test_manual_and_readme_have_the_words_of_the_window() -> None:
    for_users = [ROOT / "README.md", *(ROOT / "docs" / "manual").glob("*.md")]
    found = {
        where: words
        for path, where, line in lines()
        if path in for_users
        if (words := old_words(line))
    }
    assert not found


def test_links_in_documents_lead_somewhere() -> None:
    assert not wrong_names(LINK, lambda document, name: (document.parent / name).exists())


def test_modules_in_documents_can_be_run() -> None:
    def can_be_run(_: Path, name: str) -> bool:
        top, *rest = name.split(".")
        if top in ("app", "engine", "installer", "tests", "tools"):
            path = ROOT.joinpath(top, *rest)
            return path.with_suffix(".py").exists() or (path / "__main__.py").exists()
        return name in ("venv", "pip", "pytest") or find_spec(top) is not None

    assert not wrong_names(MODULE, can_be_run)


def test_the_architecture_shows_the_layers_that_the_linter_checks() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    layers = next(c["layers"] for c in contracts["contracts"] if c["name"] == "layers")
    expected = [{name.strip() for name in layer.split("|")} for layer in layers]
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    picture = text.split("## Packages and layers")[1].split("```")[1]
    found = [re.findall(r"(\w+)(?:/|\.py)(?=\s)", line) for line in picture.splitlines()]
    assert [set(names) for names in found if names and names != ["app"]] == expected
