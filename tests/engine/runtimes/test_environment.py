"""What is in the environment before torch is loaded, and what comes too late."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from engine.runtimes import environment
from engine.settings.optimisations import RunSwitches

NAMES = ("OMP_WAIT_POLICY", "KMP_BLOCKTIME", "PYTORCH_ALLOC_CONF")


def variables(code: str = "", **environ: str) -> list[str]:
    """Those of a new process that imports the engine and then runs some code."""
    inherited = {k: v for k, v in os.environ.items() if k not in NAMES and "UPREEL_RUN" not in k}
    code = (
        f"import os, sys, engine\nfrom engine import environment\n{code}\n"
        f"print([os.environ.get(name, '') for name in {NAMES}], 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=inherited | environ,
    )
    found, _, torch = done.stdout.strip().rpartition(" ")
    assert torch == "False"
    return [part.strip(" '") for part in found.strip("[]").split(",")]


def test_the_environment_and_then_the_settings_choose() -> None:
    assert variables() == ["PASSIVE", "0", ""]
    off = variables(UPREEL_RUN_PASSIVE_THREADS="off", UPREEL_RUN_ALLOCATOR="async")
    assert off == ["", "", "backend:cudaMallocAsync"]
    found = variables(
        OMP_WAIT_POLICY="ACTIVE", PYTORCH_ALLOC_CONF="x:1", UPREEL_RUN_ALLOCATOR="async"
    )
    assert found == ["ACTIVE", "0", "x:1"], "what the user set stays"
    code = "environment.choose('run.allocator=native,run.passive_threads=off')"
    assert variables(code, UPREEL_RUN_ALLOCATOR="async") == ["", "", ""]
    assert variables(UPREEL_RUN_ALLOCATOR="magic") == ["PASSIVE", "0", ""], "unreadable"


def test_with_torch_loaded_nothing_is_changed_and_the_difference_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torch", sys)
    before = {name: os.environ.get(name) for name in NAMES}
    environment.choose("run.allocator=async")
    assert {name: os.environ.get(name) for name in NAMES} == before
    assert environment.too_late(RunSwitches(allocator="async")) == ("allocator",)
    assert environment.too_late(RunSwitches(passive_threads=False)) == ("passive_threads",)
    assert environment.too_late(RunSwitches(tf32=True)) == ()
