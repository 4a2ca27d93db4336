"""torch's own compiler: whether it works on a device, and passes that it compiles.

One mechanism for the switches `dit.compile` and `vae.compile`. A pass is a function between two
convolutions or matrix products that writes into memory which is there: torch fuses its operations,
and buffers, carries and slices stay as they are. Libraries compute the rest in either case.

- Sizes are dynamic: one program serves all tiles, slices and layers. Another dtype, layout or
  kind of call is compiled once more; what goes beyond torch's own limit counts as failed.
- What torch cannot compile is left to the operators of the program, and said once in a job.
- Compiled code is kept in the cache folder of Upreel, and found there by later runs.

The switch `run.compiler` takes one of `BACKENDS`. Others would not do: CUDA graphs (the backend
"cudagraphs", the modes "reduce-overhead" and "max-autotune") leave alone what writes into its
arguments, and each size would hold memory that no plan counts; "aot_eager" generates no code, so
what a fused pass has in registers would be whole frames.

Only imported where one of the switches is on or a job begins; torch's compiler itself takes a
second more, at the first pass. Not yet run on a GPU.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch

from engine.core.errors import FeatureMissing
from engine.core.paths import cache_folder
from engine.hardware.out_of_memory import is_out_of_memory
from engine.ops.precision import current
from engine.ops.trials import first_line, trial

logger = logging.getLogger(__name__)

Pass = Callable[..., None]


@dataclass(frozen=True, slots=True)
class CompilerBackend:
    """A backend of torch.compile by its name, and a mode of it; "" for the usual one."""

    name: str
    mode: str = ""


# Of the switch `run.compiler`. max-autotune measures variants of each kernel, and takes longer.
BACKENDS: Mapping[str, CompilerBackend] = {
    "inductor": CompilerBackend("inductor"),
    "max-autotune": CompilerBackend("inductor", "max-autotune-no-cudagraphs"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """A pass that torch was to compile."""

    name: str  # name of the pass, for the log
    seconds: float  # duration
    failure: str = ""  # why there is no program, in words of torch; "" where there is one


Listener = Callable[[Compilation], None]


@dataclass(slots=True)
class _Compiling:
    """Who hears of compilations, what failed since then, and when the last program was ready."""

    listener: Listener = lambda _: None
    failed: set[Pass] = field(default_factory=set)
    ready: float | None = None  # s of `time.perf_counter`


_now = _Compiling()


def require_compiler(device: torch.device) -> None:
    """Refuse a device that torch cannot compile for; a small function is tried once in a process.

    Raises:
        FeatureMissing: Triton or a C++ compiler is missing, or does not work; the hint tells which.
    """
    if device.type == "cuda" and importlib.util.find_spec("triton") is None:
        raise FeatureMissing("triton")
    if fault_of(device, BACKENDS[current().compiler]):
        is_gpu = device.type == "cuda"
        raise FeatureMissing("compile-on-gpu" if is_gpu else "compile-on-processor")


def done(function: Pass, *given: Any) -> bool:
    """Call a pass as torch compiles it.

    Args:
        function: Function of a module; writes its results into some of what it is given.
        given: Tensors, tuples of them, None, scalars.

    Returns:
        Whether it was done; false where torch cannot compile it: then nothing was done.

    Raises:
        torch.OutOfMemoryError: While it was compiled or when it ran; that is no failure of the
            compiler.
    """
    if function in _now.failed:
        return False
    start, _now.ready = time.perf_counter(), None
    try:
        _compiled(function, BACKENDS[current().compiler])(*map(_alone, given))
    except Exception as err:  # a backend may raise one of any class, which torch wraps
        _memory_ran_out(err)
        if not _is_of_compiler(err):
            raise
        _now.failed.add(function)
        _tell(function, time.perf_counter() - start, first_line(err))
        return False
    if _now.ready is not None:
        _tell(function, _now.ready - start)
    return True


@contextmanager
def reporting(listener: Listener) -> Iterator[None]:
    """Tell a listener about each compilation inside; what failed before is tried again."""
    before = _now.listener, _now.failed
    _now.listener, _now.failed = listener, set()
    try:
        yield
    finally:
        _now.listener, _now.failed = before


@trial(0, RuntimeError, ImportError, OSError, level=logging.WARNING)
def fault_of(device: torch.device, chosen: CompilerBackend) -> float:
    """Fault of torch.compile on a device; "" where it works."""
    x = torch.arange(8.0, device=device)
    out = torch.empty_like(x)
    _compiled(_small, chosen)(x, out)
    return float((out - (2 * x + 1)).abs().max())


def _small(x: torch.Tensor, out: torch.Tensor) -> None:
    out.copy_(2 * x + 1)


@cache
def _compiled(function: Pass, chosen: CompilerBackend) -> Pass:
    from torch.fx.experimental import _config as shapes

    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache_folder() / "compiled"))
    shapes.use_duck_shape = False  # sizes that are equal by chance would be compiled by themselves
    compiler: Any = torch.compile  # its types do not keep those of the function
    found: Pass = compiler(function, backend=_noting(chosen), dynamic=True, fullgraph=True)
    return found


@cache
def _noting(chosen: CompilerBackend) -> Callable[[Any, Any], Any]:
    """A backend that notes when a program is ready: what follows is its first run."""
    from torch._dynamo import lookup_backend
    from torch._inductor import list_mode_options

    compile_graph: Any = lookup_backend(chosen.name)
    options = {"config_patches": list_mode_options(chosen.mode)} if chosen.mode else {}

    def backend(graph: Any, inputs: Any) -> Any:
        program = compile_graph(graph, inputs, **options)
        _now.ready = time.perf_counter()
        return program

    return backend


def _alone(given: Any) -> Any:
    """Tensors that are no views of others: torch would compile once for each kind of base."""
    if isinstance(given, tuple):
        return tuple(map(_alone, given))
    return given.data if isinstance(given, torch.Tensor) else given


def _tell(function: Pass, seconds: float, failure: str = "") -> None:
    name = function.__name__.strip("_")
    logger.info("torch.compile: %s took %.1f s %s", name, seconds, failure)
    _now.listener(Compilation(name=name, seconds=seconds, failure=failure))


def _is_of_compiler(error: Exception) -> bool:
    """Whether an error arose while torch compiled, before anything ran."""
    from torch._dynamo.exc import FailOnRecompileLimitHit, TorchDynamoException

    return isinstance(error, TorchDynamoException | FailOnRecompileLimitHit)


def _memory_ran_out(error: Exception) -> None:
    """Raise the lack of memory that an error is or wraps."""
    inner = getattr(error, "inner_exception", error)
    if is_out_of_memory(inner):
        raise inner
