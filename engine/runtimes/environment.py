"""Environment of the libraries: variables set, and configuration hidden, before torch is loaded."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import PurePath
from types import ModuleType
from typing import Any

from engine.core.errors import SettingsError
from engine.runtimes import start
from engine.settings.optimisations import RunSwitches
from engine.settings.switches import switches_of

# By default threads of torch that wait for work spin for a while. The encoder, the decoder and the
# window need those cores: spinning multiplied the CPU time of small operations by 10 to 70.
_PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}
# Unless large blocks are left whole, what a stream keeps for its next slice lies in the way of
# larger tensors: torch reserves a quarter more than all tensors have, and then fails (counted on
# the pretended GPU).
_ALLOCATORS = {
    "native": {"PYTORCH_ALLOC_CONF": "max_split_size_mb:24"},
    "expandable": {"PYTORCH_ALLOC_CONF": "expandable_segments:True"},
    "async": {"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"},
}
_AT_START = tuple(entry.name for entry in RunSwitches.entries() if entry.at_start)


@dataclass(slots=True)
class _Applied:
    """The switches of this process, and the variables that were set for them."""

    switches: RunSwitches = field(default_factory=RunSwitches)
    variables: dict[str, str] = field(default_factory=dict)


_applied = _Applied()


def prepare() -> None:
    """Set the variables and choose a build of torch; must run before torch is loaded.

    Switches that cannot be parsed are ignored here: the job reports them to the user. CUDA has
    the order of NVML, that of the slots, whatever the user's environment says; so have Dask and
    torch their usual settings.
    """
    ignore_foreign()
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    try:
        choose("")
    except SettingsError:
        _set(RunSwitches())
    start.activate()


def choose(text: str) -> None:
    """Apply the environment and a text as in the setting `switches`, while torch is not loaded.

    Raises:
        SettingsError: One of them cannot be parsed.
    """
    if "torch" not in sys.modules:
        _set(switches_of(text, "cpu", None).run)


def too_late(run: RunSwitches) -> tuple[str, ...]:
    """Names of switches whose value differs from that at the start of the process."""
    return tuple(
        name for name in _AT_START if getattr(run, name) != getattr(_applied.switches, name)
    )


def variables_of(run: RunSwitches) -> Mapping[str, str]:
    """Variables that switches need; values set by the user are kept."""
    return (_PASSIVE if run.passive_threads else {}) | _ALLOCATORS[run.allocator]


def _set(run: RunSwitches) -> None:
    for name, value in _applied.variables.items():
        if os.environ.get(name) == value:
            del os.environ[name]
    _applied.switches = run
    _applied.variables = {
        name: value for name, value in variables_of(run).items() if name not in os.environ
    }
    os.environ.update(_applied.variables)


# --- configuration for other programs, which the libraries of this one would read as well

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


def ignore_foreign() -> None:
    """Hide configuration for other programs from this process and those that it starts.

    Must run before a library is loaded. A user's settings for Dask, torch, NumPy or GNU OpenMP are
    meant for other programs: some change results here, and a broken one ends the process that reads
    it, or has it wait for ever. What this program needs of them has switches.
    """
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
