"""Configuration for other programs, which the libraries of this one would read as well.

A user's settings for Dask, torch, NumPy or GNU OpenMP are meant for other programs: some change
results here, and a broken one ends the process that reads it, or has it wait for ever. What this
program needs of them has switches.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import PurePath
from types import ModuleType
from typing import Any

_PREFIXES = (
    "DASK_",
    "GOMP_",
    "NPY_",
    "PYTORCH_",
    "TORCH_",
    "TORCHDYNAMO_",
    "TORCHINDUCTOR_",
    "TRITON_",
)
_PLACES = frozenset({"TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"})  # harmless
_CONFIG = "dask.config"


def ignore() -> None:
    """Hide it from this process and those that it starts; before a library is loaded."""
    for name in [one for one in os.environ if one.startswith(_PREFIXES) and one not in _PLACES]:
        del os.environ[name]
    is_found = any(isinstance(finder, _DaskFinder) for finder in sys.meta_path)
    if _CONFIG not in sys.modules and not is_found:
        sys.meta_path.insert(0, _DaskFinder())


class _DaskFinder(MetaPathFinder):
    """Finds the module in which Dask reads its files as it is loaded, and has it find none."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Spec of that module; None for others. Removes itself."""
        if name != _CONFIG:
            return None
        sys.meta_path.remove(self)
        specs = (finder.find_spec(name, path, target) for finder in tuple(sys.meta_path))
        spec = next(filter(None, specs), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _LoaderWithoutFiles(spec.loader)
        return spec


class _LoaderWithoutFiles(Loader):
    """The loader of Dask's configuration."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Calls the original loader."""
        module: ModuleType | None = self._inner.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Calls the original loader, for which no file of a user or an administrator exists."""
        with _hidden_files():
            self._inner.exec_module(module)
        module.paths.clear()  # those that it would read again


@contextmanager
def _hidden_files() -> Iterator[None]:
    """Inside, `os.path.exists` finds no folder of Dask's files, in whichever thread."""
    exists = os.path.exists

    def exists_for_us(path: Any) -> bool:
        is_hidden = isinstance(path, str) and PurePath(path).parts[-2:] in (
            ("etc", "dask"),
            (".config", "dask"),
        )
        return not is_hidden and exists(path)

    os.path.exists = exists_for_us
    try:
        yield
    finally:
        os.path.exists = exists
