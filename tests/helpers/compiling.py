"""Backends of torch.compile for tests: operators one by one, or one that fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
import torch

from engine.core.errors import FeatureMissing
from engine.ops import compiler
from engine.ops.compiler import Compilation, CompilerBackend, reporting

EAGER = "aot_eager"  # traces as Inductor does, and generates no code


@contextmanager
def compiling(backend: str | Callable[..., Any] = EAGER) -> Iterator[list[Compilation]]:
    """What torch compiles inside, by another backend; nothing is kept from before or for later."""
    name = backend if isinstance(backend, str) else "upreel_test"
    found: list[Compilation] = []
    from torch import _dynamo  # here: whoever only collects tests does without its second

    _forget()
    if not isinstance(backend, str):
        _dynamo.register_backend(backend, name)
    try:
        backends = {"inductor": CompilerBackend(name)}
        with patch.dict(compiler.BACKENDS, backends), reporting(found.append):
            yield found
    finally:
        _dynamo.backends.registry._COMPILER_FNS.pop("upreel_test", None)
        _forget()


def needs_compiler() -> None:
    """Skip a test where torch cannot compile for the processor, with what it lacks."""
    try:
        compiler.require_compiler(torch.device("cpu"))
    except FeatureMissing as err:
        pytest.skip(f"torch cannot compile here: {err.message}")


def _forget() -> None:
    from torch import _dynamo

    _dynamo.reset()
    for cached in (compiler._compiled, compiler._noting, compiler.fault_of):
        cached.cache_clear()
