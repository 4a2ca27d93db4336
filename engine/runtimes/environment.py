"""What has to be in the process environment before torch is loaded."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.core.errors import SettingsError
from engine.runtimes import start
from engine.settings.optimisations import RunSwitches
from engine.settings.switches import switches_of

# Threads of torch that wait for work spin for a while by default. The encoder, the decoder and
# the window need those cores: with spinning the small operations around the model took 10 to 70
# times the processor time on two busy cores.
_PASSIVE = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}
_ALLOCATORS = {
    "native": {},  # whatever torch does by itself
    "expandable": {"PYTORCH_ALLOC_CONF": "expandable_segments:True"},
    "async": {"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"},
}
_AT_START = tuple(entry.name for entry in RunSwitches.entries() if entry.at_start)


@dataclass(slots=True)
class _Chosen:
    """What this process has: the switches, and the variables that were set for them."""

    switches: RunSwitches = field(default_factory=RunSwitches)
    variables: dict[str, str] = field(default_factory=dict)


_chosen = _Chosen()


def prepare() -> None:
    """Set what is not set already, and choose a torch; must run before torch is loaded.

    Switches that nobody can read are left to whoever reads them next, and tells the user.
    """
    try:
        choose("")
    except SettingsError:
        _set(RunSwitches())
    start.activate()


def choose(text: str) -> None:
    """Follow the environment and a text as in the setting `switches`, while torch is not loaded.

    Raises:
        SettingsError: One of them cannot be read.
    """
    if "torch" not in sys.modules:
        _set(switches_of(text, "cpu", None).run)


def too_late(run: RunSwitches) -> tuple[str, ...]:
    """Names of switches that this process was started with another value of."""
    return tuple(
        name for name in _AT_START if getattr(run, name) != getattr(_chosen.switches, name)
    )


def variables_of(run: RunSwitches) -> Mapping[str, str]:
    """What the environment is to have, where a user did not set it to something else."""
    return (_PASSIVE if run.passive_threads else {}) | _ALLOCATORS[run.allocator]


def _set(run: RunSwitches) -> None:
    for name, value in _chosen.variables.items():
        if os.environ.get(name) == value:
            del os.environ[name]
    _chosen.switches = run
    _chosen.variables = {
        name: value for name, value in variables_of(run).items() if name not in os.environ
    }
    os.environ.update(_chosen.variables)
