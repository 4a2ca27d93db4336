"""The switch dit.compile: the same values, a clear refusal, and nothing loaded while it is off."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.core.errors import FeatureMissing
from engine.models.seedvr2.dit.compiled import CompiledOps
from engine.models.seedvr2.dit.fast import FastDit
from engine.models.seedvr2.dit.load import LoadOptions, load_dit
from engine.ops import compiler
from engine.settings.optimisations import DitSwitches
from tests.helpers.compiling import compiling, needs_compiler
from tests.helpers.extended import extended
from tests.helpers.fast_dit import fast_dit, gap
from tests.helpers.seedvr2 import random_dit, random_inputs, tiny_dit_config

COMPILED = DitSwitches(compile=True)
CPU = torch.device("cpu")


def check_equality(kind: str) -> None:
    plain = random_dit(tiny_dit_config(kind))
    fast = fast_dit(plain, COMPILED)
    for shape, text in (((5, 24, 44), 3), ((2, 30, 92), 4)):
        inputs = random_inputs(plain.config, shape, text=text)
        for timestep in (1000.0, 300.0):
            assert gap(fast(*inputs, timestep), plain(*inputs, timestep)) < 1e-10


@pytest.mark.parametrize("kind", ["3b", "7b"])
def test_its_passes_are_those_of_the_plain_form(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Uncompiled, so that it takes milliseconds."""
    used: list[str] = []

    def as_it_is(function: Any, chosen: compiler.CompilerBackend) -> Any:
        used.append(function.__name__)
        return function

    monkeypatch.setattr(compiler, "_compiled", as_it_is)
    check_equality(kind)
    assert {"_modulate", "_heads", "_add"} <= set(used)
    assert ("_gate" in used) is (kind == "3b")


@pytest.mark.programs("g++")
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["3b", "7b"])
def test_compiled_it_equals_the_plain_form(kind: str) -> None:
    needs_compiler()
    check_equality(kind)


def test_off_nothing_of_the_compiler_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor with its modules: see test_imports.py."""
    assert isinstance(FastDit(tiny_dit_config("3b"), COMPILED)._tools.steps, CompiledOps)
    monkeypatch.setitem(sys.modules, CompiledOps.__module__, None)
    assert not isinstance(FastDit(tiny_dit_config("3b"))._tools.steps, CompiledOps)
    with pytest.raises(ImportError):
        FastDit(tiny_dit_config("3b"), COMPILED)


def test_a_card_without_triton_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    options = LoadOptions(switches=COMPILED)
    with pytest.raises(FeatureMissing, match="Triton") as caught:
        load_dit(tmp_path / "not looked at.safetensors", device="cuda", options=options)
    assert "Turn off the switches dit.compile and vae.compile" in caught.value.hint


def broken(graph: Any, inputs: Any) -> Any:
    raise RuntimeError("no C++ compiler found")


def test_a_compiler_that_fails_is_refused() -> None:
    with compiling(broken), pytest.raises(FeatureMissing, match="does not work for the CPU"):
        compiler.require_compiler(CPU)


@pytest.mark.parametrize("kind", [*extended("3b"), "7b"])
def test_what_cannot_be_compiled_is_computed_as_without_it(kind: str) -> None:
    with compiling(broken) as found:
        check_equality(kind)
    assert {"modulate", "heads", "add"} <= {one.name for one in found}
    assert {one.failure for one in found} == {"no C++ compiler found"}
