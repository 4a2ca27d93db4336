"""Environment variables that have to be set before torch is loaded."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.core.errors import SettingsError
from engine.runtimes import foreign, start
from engine.settings.optimisations import RunSwitches
from engine.settings.switches import switches_of

# By default threads of torch that wait for work spin for a while. The encoder, the decoder and the
# window need those cores: spinning multiplied the processor time of small operations by 10 to 70.
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
    foreign.ignore()
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
