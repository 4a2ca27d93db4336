"""Collects the licence texts of every package in the packaged program into one file.

    python -m installer.licences FILE

The packages are the `dependencies` of pyproject.toml and their dependencies, as installed here. A
package without its own licence text must be named in `FALLBACK`; otherwise this ends with an error,
so that nothing is packed without its licence.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
import sysconfig
from collections.abc import Iterable
from importlib.metadata import Distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from installer import project

TEXTS = project.ROOT / "resources" / "licences"
QT = ("LGPL-3.0.txt", "GPL-3.0.txt")
FALLBACK = {"pyside6-essentials": QT, "shiboken6": QT}  # package -> texts in resources/licences
HEADER = {"nvidia-ml-py": "pynvml.py"}  # package -> module whose first comment is the licence
STATED = ("License-Expression", "License")  # metadata fields in order of preference
CUDA_PACKAGE = re.compile(r"triton|cuda-|nvidia-(?!ml-py)")
FILE_NAMES = ("licen", "copying", "notice", "authors")  # parts of them
SUFFIXES = {"", ".txt", ".md", ".rst", ".apache", ".bsd", ".mit", ".psf"}


def direct_dependencies() -> list[str]:
    """Names in `dependencies` of pyproject.toml."""
    return [Requirement(line).name for line in project.metadata()["dependencies"]]


def closure(names: list[str]) -> dict[str, Distribution]:
    """The named packages and all their dependencies on this system, by canonical name."""
    found: dict[str, Distribution] = {}
    waiting = list(names)
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in found:
            continue
        found[name] = importlib.metadata.distribution(name)
        for line in found[name].requires or []:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    return dict(sorted(found.items()))


def own_texts(distribution: Distribution) -> list[tuple[str, str]]:
    """Licence files that the package has installed: path and text."""
    texts = []
    for file in distribution.files or []:
        path = Path(str(file))
        named = any(part in path.name.lower() for part in FILE_NAMES)
        if "dist-info" in str(file) and named and path.suffix.lower() in SUFFIXES:
            content = Path(str(distribution.locate_file(file))).read_text("utf-8", "replace")
            texts.append((path.as_posix(), content))
    return texts


def header_text(distribution: Distribution, module: str) -> str:
    """The comment at the beginning of a module."""
    lines = Path(str(distribution.locate_file(module))).read_text("utf-8").splitlines()
    end = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    return "\n".join(line.lstrip("# ") for line in lines[:end])


def texts_of(name: str, distribution: Distribution) -> list[tuple[str, str]]:
    """All licence texts of one package.

    Raises:
        SystemExit: there is none.
    """
    texts = own_texts(distribution)
    if not texts and name in HEADER:
        texts = [(HEADER[name], header_text(distribution, HEADER[name]))]
    if not texts:
        texts = [(n, (TEXTS / n).read_text(encoding="utf-8")) for n in FALLBACK.get(name, ())]
    if not texts:
        raise SystemExit(f"{name} {distribution.version} has no licence text; add it to FALLBACK.")
    return texts


def python_text() -> str:
    """Licence of the Python that is packed; resources/licences has it for a Python without one."""
    for folder in (sysconfig.get_path("stdlib"), sys.base_prefix, sys.prefix):
        file = Path(folder, "LICENSE.txt")
        if file.is_file():
            return file.read_text("utf-8", "replace")
    return (TEXTS / "PSF-2.0.txt").read_text(encoding="utf-8")


def refuse_cuda(names: Iterable[str]) -> None:
    """Refuse a torch that depends on NVIDIA's libraries: Upreel may not distribute them.

    Raises:
        SystemExit: This torch is a CUDA build.
    """
    if any(CUDA_PACKAGE.match(name) for name in names):
        raise SystemExit("This torch is a CUDA build; install the CPU build to pack Upreel.")


def collect() -> str:
    """All texts in one, each once: a later package with the same text names the first."""
    packed = closure(direct_dependencies())
    refuse_cuda(packed)
    parts = [f"Python {sys.version.split()[0]}\n\n{python_text()}"]
    seen: dict[str, str] = {}
    for name, distribution in packed.items():
        title = f"{name} {distribution.version}"
        lines = [title, f"Licence as stated: {stated_licence(distribution)}"]
        for path, text in texts_of(name, distribution):
            first = seen.setdefault(text.strip(), f"{title}, {path}")
            is_known = first != f"{title}, {path}"
            lines.append(f"\n--- {path} ---\n" + (f"(as {first})" if is_known else text.strip()))
        parts.append("\n".join(lines))
    for file in sorted(TEXTS.glob("*GPL*.txt")):
        if file.read_text(encoding="utf-8").strip() not in seen:
            parts.append(f"{file.stem}\n\n{file.read_text(encoding='utf-8')}")
    return ("\n\n" + "=" * 100 + "\n\n").join(parts) + "\n"


def stated_licence(distribution: Distribution) -> str:
    """Licence in the metadata of a package, in one line."""
    metadata = distribution.metadata
    stated = next((metadata[key] for key in STATED if key in metadata), "")
    classifiers = [c for c in metadata.get_all("Classifier") or [] if c.startswith("License")]
    return stated.splitlines()[0] if stated.strip() else "; ".join(classifiers) or "not stated"


def write(target: Path) -> None:
    """Write the collected texts to a file."""
    target.parent.mkdir(parents=True, exist_ok=True)
    text = collect()
    target.write_text(text, encoding="utf-8")
    print(f"{target}: {len(text) / 1000:.0f} kB")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m installer.licences FILE")
    write(Path(sys.argv[1]))
