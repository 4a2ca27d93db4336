"""A stand-in for an NVIDIA runtime: a small wheel whose torch can do next to nothing."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.runtimes.catalogue import Runtime, RuntimeCatalogue, Wheel

VERSION = "9.9.9+cu999"
NAME = f"torch-{VERSION}-py3-none-any.whl"
PLACE = f"cu999/{NAME}".replace("+", "%2B")
TORCH = f"""
from torch import version

__version__ = {VERSION!r}


class cuda:
    is_available = staticmethod(lambda: False)


class ones:
    def __init__(self, rows, columns, device="cpu"):
        self.rows, self.columns, self.value = rows, columns, 1.0

    def __matmul__(self, other):
        result = ones(self.rows, other.columns)
        result.value = float(self.columns)
        return result

    def sum(self):
        return self.rows * self.columns * self.value
"""
MEMBERS = {
    "torch/__init__.py": TORCH,
    "torch/version.py": "cuda = '99.9'\n",
    "torch/lib/c10.dll": "x" * 20_000,
    "torch/lib/c10.lib": "only for linking",
    "torch/include/ATen/a.h": "only for builders",
    "torchgen/__init__.py": "",
    f"torch-{VERSION}.dist-info/METADATA": "Name: torch\n",
}


def wheel(folder: Path, members: Mapping[str, str] = MEMBERS, name: str = NAME) -> Path:
    """Write a wheel, as `pip` would take it."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, text in members.items():
            content = text.encode()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            lines.append(f"{member},sha256={digest.decode()},{len(content)}")
            archive.writestr(zipfile.ZipInfo(member, (2026, 1, 1, 0, 0, 0)), content)
        record = f"torch-{VERSION}.dist-info/RECORD"
        archive.writestr(record, "\n".join([*lines, f"{record},,"]) + "\n")
    return folder / name


def runtime(file: Path, **changes: Any) -> Runtime:
    """The entry that knows this wheel."""
    content = file.read_bytes()
    about = Wheel(
        filename=file.name,
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        place=PLACE,
    )
    made = Runtime(
        id="cu999",
        title="NVIDIA runtime, CUDA 99.9",
        torch=VERSION,
        cuda="99.9",
        driver="580.0",
        wheels=(about,),
    )
    return dataclasses.replace(made, **changes)


def catalogue(*runtimes: Runtime, index: str = "") -> RuntimeCatalogue:
    """A catalogue of these alone."""
    return RuntimeCatalogue(
        index=index, torch="9.9.9", python="py3", licence="none", runtimes=runtimes
    )


def as_toml(known: RuntimeCatalogue) -> str:
    """As resources/runtime.toml has it."""
    lines = [_line(known, f) for f in ("index", "torch", "python", "licence")]
    for runtime_ in known:
        names = [f.name for f in dataclasses.fields(runtime_) if f.name != "wheels"]
        lines += ["", "[[runtimes]]", *(_line(runtime_, name) for name in names)]
        for wheel_ in runtime_.wheels:
            fields = [field.name for field in dataclasses.fields(wheel_)]
            lines += ["", "[[runtimes.wheels]]", *(_line(wheel_, name) for name in fields)]
    return "\n".join(lines) + "\n"


def _line(item: Any, name: str) -> str:
    value = getattr(item, name)
    return f"{name} = {value}" if isinstance(value, int) else f'{name} = "{value}"'
