"""Collect the licence texts of every package in the packaged program into one file.

python -m installer.licences FILE

The packages are the `dependencies` of pyproject.toml and what those need, as installed here. A
package without a text of its own must be named in `FALLBACK`; else this ends with an error, so that
nothing is packed without its licence.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
import sysconfig
import tomllib
from collections.abc import Iterable
from importlib.metadata import Distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
TEXTS = ROOT / "resources" / "licences"
QT = ("LGPL-3.0.txt", "GPL-3.0.txt")
FALLBACK = {"pyside6-essentials": QT, "shiboken6": QT}  # package -> texts in resources/licences
HEADER = {"nvidia-ml-py": "pynvml.py"}  # package -> module whose first comment is the licence
STATED = ("License-Expression", "License")  # metadata fields, the clearer one first
CUDA_PACKAGE = re.compile(r"triton|cuda-|nvidia-(?!ml-py)")
WORDS = ("licen", "copying", "notice", "authors")
SUFFIXES = {"", ".txt", ".md", ".rst", ".apache", ".bsd", ".mit", ".psf"}


def direct_dependencies() -> list[str]:
    """Names in `dependencies` of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [Requirement(line).name for line in project["dependencies"]]


def closure(names: list[str]) -> dict[str, Distribution]:
    """Look up the named packages and all they need on this system, by canonical name."""
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
    """Licence files that the package has installed: place and text."""
    texts = []
    for file in distribution.files or []:
        path = Path(str(file))
        named = any(word in path.name.lower() for word in WORDS)
        if "dist-info" in str(file) and named and path.suffix.lower() in SUFFIXES:
            content = Path(str(distribution.locate_file(file))).read_text("utf-8", "replace")
            texts.append((path.as_posix(), content))
    return texts


def header_text(distribution: Distribution, module: str) -> str:
    """Return the comment at the head of a module."""
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
    """Return the licence of the Python that is packed; ours where it came without the file."""
    places = [Path(sysconfig.get_path("stdlib")), Path(sys.base_prefix), Path(sys.prefix)]
    for place in places:
        file = place / "LICENSE.txt"
        if file.is_file():
            return file.read_text("utf-8", "replace")
    return (TEXTS / "PSF-2.0.txt").read_text(encoding="utf-8")


def refuse_cuda(names: Iterable[str]) -> None:
    """Stop when torch has brought NVIDIA's libraries along: they are not ours to pass on.

    Raises:
        SystemExit: This torch is a CUDA build.
    """
    if any(CUDA_PACKAGE.match(name) for name in names):
        raise SystemExit("This torch is a CUDA build; install the CPU build to pack Upreel.")


def collect() -> str:
    """Put all texts together, each text once; packages that share one name the first."""
    packed = closure(direct_dependencies())
    refuse_cuda(packed)
    parts = [f"Python {sys.version.split()[0]}\n\n{python_text()}"]
    seen: dict[str, str] = {}
    for name, distribution in packed.items():
        title = f"{name} {distribution.version}"
        lines = [title, f"Licence as stated: {stated_licence(distribution)}"]
        for place, text in texts_of(name, distribution):
            first = seen.setdefault(text.strip(), f"{title}, {place}")
            same = first != f"{title}, {place}"
            lines.append(f"\n--- {place} ---\n" + (f"(as {first})" if same else text.strip()))
        parts.append("\n".join(lines))
    for file in sorted(TEXTS.glob("*GPL*.txt")):
        if file.read_text(encoding="utf-8").strip() not in seen:
            parts.append(f"{file.stem}\n\n{file.read_text(encoding='utf-8')}")
    return ("\n\n" + "=" * 100 + "\n\n").join(parts) + "\n"


def stated_licence(distribution: Distribution) -> str:
    """Return what the package's metadata says of its licence, in one line."""
    metadata = distribution.metadata
    stated = next((metadata[key] for key in STATED if key in metadata), "")
    classifiers = [c for c in metadata.get_all("Classifier") or [] if c.startswith("License")]
    return stated.splitlines()[0] if stated.strip() else "; ".join(classifiers) or "not stated"


def main() -> None:
    """Write the file named on the command line."""
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m installer.licences FILE")
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    text = collect()
    target.write_text(text, encoding="utf-8")
    print(f"{target}: {len(text) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
