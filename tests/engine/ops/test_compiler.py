"""Passes that torch compiles: what runs, what fails, what is said of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from engine.core.errors import FeatureMissing
from engine.ops import compiler
from engine.ops.compiler import CompilerBackend, reporting, require_compiler
from engine.ops.precision import using
from engine.settings.optimisations import RunSwitches, choices
from tests.helpers.compiling import compiling

CPU = torch.device("cpu")


def double(x: Tensor, out: Tensor) -> None:
    out.copy_(2 * x)


def add(x: Tensor, change: Tensor) -> None:
    x.add_(change)


def broken(graph: Any, inputs: Any) -> Any:
    raise RuntimeError("no such instruction\nmore about it")


def starved(graph: Any, inputs: Any) -> Any:
    raise torch.OutOfMemoryError("out of memory while a kernel was measured")


def test_one_program_serves_every_size() -> None:
    with compiling() as found:
        for size in ((2, 3), (5, 7), (64, 48), (9, 2)):
            x, out = torch.rand(size), torch.empty(size)
            assert compiler.done(double, x, out)
            assert torch.equal(out, 2 * x)
    (only,) = found
    assert (only.name, only.failure, only.seconds > 0) == ("double", "", True)


def test_what_fails_does_nothing_and_is_tried_again_in_the_next_job() -> None:
    x = torch.ones(4)
    with compiling(broken) as found:
        for _ in range(2):
            assert not compiler.done(add, x, x.clone())
        assert torch.equal(x, torch.ones(4))
        (only,) = found
        assert (only.name, only.failure) == ("add", "no such instruction")
        again: list[object] = []
        with reporting(again.append):
            assert not compiler.done(add, x, x.clone())
        assert len(again) == 1
    with compiling():
        assert compiler.done(add, x, x.clone())
    assert torch.equal(x, 2 * torch.ones(4))


def test_a_lack_of_memory_is_no_failure_of_the_compiler() -> None:
    x = torch.ones(4)
    with compiling(starved) as found:
        with pytest.raises(torch.OutOfMemoryError, match="was measured"):
            compiler.done(add, x, x.clone())
        with pytest.raises(torch.OutOfMemoryError):
            require_compiler(CPU)
    assert found == []
    with compiling(broken), pytest.raises(FeatureMissing) as caught:
        require_compiler(CPU)
    assert caught.value.case == "compile-on-processor"
    assert "vae.compile" in caught.value.hint


def test_an_error_of_a_program_that_runs_is_not_hidden() -> None:
    def failing(graph: Any, inputs: Any) -> Any:
        def program(*given: Any) -> Any:
            raise RuntimeError("device-side assert")

        return program

    x = torch.ones(4)
    with compiling(failing) as found, pytest.raises(RuntimeError, match="device-side"):
        compiler.done(add, x, x.clone())
    assert found == []


def test_torchs_limit_of_programs_is_kept() -> None:
    kinds = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64]
    kinds += [torch.int16, torch.int8, torch.uint8, torch.complex64]
    with compiling() as found:
        done = [
            compiler.done(double, torch.ones(4, dtype=k), torch.ones(4, dtype=k)) for k in kinds
        ]
    limit = torch._dynamo.config.recompile_limit
    assert done == [True] * limit + [False] * (len(kinds) - limit)
    assert [bool(one.failure) for one in found] == [False] * limit + [True]


def test_the_choice_of_the_machine_sets_the_mode() -> None:
    (entry,) = (one for one in choices() if one.key == "run.compiler")
    assert set(entry.values) == set(compiler.BACKENDS)
    assert entry.working("cpu") == ("inductor",)
    used = []

    def as_it_is(function: Any, chosen: CompilerBackend) -> Any:
        used.append(chosen.mode)
        return function

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "_compiled", as_it_is)
        for name in entry.values:
            with using(RunSwitches(compiler=name)):
                compiler.done(double, torch.ones(2), torch.ones(2))
    assert used == ["", "max-autotune-no-cudagraphs"]
    modes = torch._inductor.list_mode_options
    assert modes(used[1])["max_autotune"]
    assert not modes(used[1]).get("triton.cudagraphs")
