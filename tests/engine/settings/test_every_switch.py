"""Every switch does something: each is changed alone, and other operations run.

Tests of the models show that results stay the same; the benchmark shows that it is faster.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.hardware import gpu_table
from engine.hardware.budget import pretended_budget
from engine.models.planning.candidates import with_two_at_once
from engine.models.planning.memory import PhaseMemory, Room
from engine.models.seedvr2.dit import config as dit_config
from engine.models.seedvr2.dit.fast import FastDit
from engine.models.seedvr2.dit.plain import SeedVr2Dit
from engine.models.seedvr2.vae import fast_layers
from engine.models.seedvr2.vae.fast import FastVae
from engine.models.seedvr2.vae.plain import SeedVr2Vae
from engine.models.video_vae import runner, tile_stream
from engine.ops import compiler
from engine.ops.attention import single_head
from engine.ops.conv import frame_conv
from engine.ops.kernels import group_norm, heads, token_rows
from engine.ops.linear import promoted
from engine.ops.linear.matmul import onednn_serves
from engine.ops.precision import arithmetic_of, current, exact_arithmetic, using
from engine.ops.transfer import pinned, tile_canvas, weight_streaming
from engine.ops.transfer.weight_streaming import WeightStream
from engine.runtimes import environment
from engine.settings.optimisations import (
    DitSwitches,
    RunSwitches,
    VaeSwitches,
    choices,
    optimisations,
)
from engine.settings.switches import Switches
from tests.helpers.dispatch import DispatchMode
from tests.helpers.memory import seedvr2_plan
from tests.helpers.seedvr2 import (
    random_dit,
    random_frames,
    random_inputs,
    tiny_config,
    tiny_dit_config,
    tiny_vae,
)

GPU = torch.device("cuda", 0)


class Case:
    """What an observation uses: models that are built once, and patches that are undone."""

    def __init__(self, vae: SeedVr2Vae, dit: SeedVr2Dit) -> None:
        self.vae, self.dit = vae, dit
        self.usual: dict[str, object] = {}  # what happens in a model with the usual switches
        self.patch = pytest.MonkeyPatch()


class Trace(DispatchMode):
    """The operators that are called, with shapes and layouts."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[object] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        shapes = [(tuple(x.shape), x.stride()) for x in args if isinstance(x, Tensor)]
        self.calls.append((func, shapes))
        return func(*args, **(kwargs or {}))


@contextmanager
def _traced() -> Iterator[list[object]]:
    """The calls inside, where tiny models are computed in chunks too.

    A request for kernels counts as a call; on a processor there are none.
    """
    with pytest.MonkeyPatch.context() as patch, Trace() as trace:
        patch.setattr(fast_layers, "_PHASE_BYTES", 1)
        patch.setattr(dit_config, "_CHUNK_BYTES", 1)
        patch.setattr(dit_config, "_LEAST_ROWS", 64)
        for module in (group_norm, token_rows, heads):
            patch.setattr(module, "find", lambda *_: trace.calls.append("kernel requested"))
        yield trace.calls


def _vae_calls(case: Case, changes: dict[str, Any], frames: int = 5) -> object:
    """Operators of the VAE on a clip, usually of two slices."""
    switches, state = replace(VaeSwitches(), **changes), case.vae.state_dict()
    fast = FastVae(case.vae.config, state, switches=switches, dtype=torch.float64)
    fast.enable_slicing(2)
    with _traced() as calls:
        mean = fast.posterior(random_frames(1, 3, frames, 8, 8)).chunk(2, dim=1)[0]
        fast.decode(mean)
    return calls


def _dit_calls(case: Case, changes: dict[str, Any]) -> object:
    """Operators of the transformer on the same clip twice."""
    dtype = torch.float32 if "onednn_matmul" in changes else torch.float64
    switches = replace(DitSwitches(attention="math"), **changes)
    state = {key: x.to(dtype) for key, x in case.dit.state_dict().items()}
    with _traced() as calls:
        with torch.device("meta"):
            fast = FastDit(case.dit.config, switches)
        fast.load_state_dict(state, assign=True)
        fast.requires_grad_(False)
        calls.clear()
        fast.finish_loading()
        for _ in range(2):
            inputs = random_inputs(case.dit.config, (3, 12, 22), text=3)
            fast(*(x.to(dtype) for x in inputs), 1000.0)
    return calls


def _wide_attention(case: Case, chunked: bool) -> object:
    """Whether attention is cut on a device whose kernels only take narrower heads."""
    q = torch.empty(1, 12, 8, device="meta")
    by_torch = SimpleNamespace(scaled_dot_product_attention=lambda q, *_: q)
    case.patch.setattr(single_head, "_memory_efficient", lambda *_: False)
    case.patch.setattr(single_head, "attend_in_chunks", lambda *_: "in chunks")
    case.patch.setattr(single_head, "F", by_torch)
    return type(single_head.attend_single_head(q, q, q, chunked=chunked))


def _flags_of(case: Case, switches: RunSwitches) -> object:
    before = _flags()
    with arithmetic_of(switches):
        inside = _flags()
        with exact_arithmetic():
            assert _flags() == inside
    assert _flags() == before, "what holds for the process is put back"
    return inside


def _flags() -> tuple[object, ...]:
    cudnn: Any = torch.backends.cudnn
    matmul = torch.backends.cuda.matmul
    return cudnn.benchmark, cudnn.allow_tf32, matmul.fp32_precision, matmul.allow_fp16_accumulation


def _kernel_sums(case: Case, on: bool) -> object:
    """Whether kernels that are asked for may add products up in half precision."""
    asked: list[object] = []

    def find(*_: object, half_sums: bool, **__: object) -> None:
        asked.append(half_sums)

    case.patch.setattr(frame_conv, "find", find)
    chosen = VaeSwitches(convolution="kernel", fp16_sums=on)
    FastVae(case.vae.config, case.vae.state_dict(), dtype=torch.float16, switches=chosen)
    return asked


def _promoted_products(case: Case, on: bool) -> object:
    """Products that our kernel is asked for."""
    asked: list[object] = []
    case.patch.setattr(promoted, "multiply", lambda x, *_, **__: bool(asked.append(len(x))))
    with torch.device("meta"):
        fast = FastDit(case.dit.config, DitSwitches(attention="math", fp16_sums=on))
    state = {key: x.half() for key, x in case.dit.state_dict().items()}
    fast.load_state_dict(state, assign=True)
    fast.requires_grad_(False)
    fast.finish_loading()
    fast(*(x.half() for x in random_inputs(case.dit.config, (1, 4, 4), text=3)), 1000.0)
    return asked


def _compiled_norms(case: Case, on: bool) -> object:
    """Passes that torch is asked to compile."""
    asked: list[str] = []
    case.patch.setattr(runner, "require_compiler", lambda _: None)
    case.patch.setattr(compiler, "done", lambda one, *_: bool(asked.append(one.__name__)))
    fast = FastVae(case.vae.config, case.vae.state_dict(), switches=VaeSwitches(compile=on))
    fast.posterior(random_frames(1, 3, 1, 16, 16, dtype=torch.float32))
    return asked


def _backend(case: Case, switches: RunSwitches) -> object:
    """What compiles."""
    asked: list[object] = []
    case.patch.setattr(compiler, "_compiled", lambda _, chosen: lambda *_: asked.append(chosen))
    with using(switches):
        compiler.done(_backend)
    return asked


def _dit_steps(case: Case, on: bool) -> object:
    return type(FastDit(tiny_dit_config("3b"), DitSwitches(compile=on))._tools.steps)


def _pinned(case: Case, on: bool) -> object:
    """Requests to CUDA and torch of everything that keeps data for a GPU."""
    asked: list[object] = []
    empty = torch.empty

    def make(*sizes: Any, **options: Any) -> Tensor:
        asked.append(options.pop("pin_memory", False))
        return empty(*sizes, **options)

    with pytest.MonkeyPatch.context() as patch, using(RunSwitches(pinned_transfers=on)):
        patch.setattr(pinned, "_register", lambda *_: asked.append("register"))
        patch.setattr(torch, "empty", make)
        pinned.HostBytes(8, GPU)
        tile_canvas._pinned(8)
        asked.append(pinned.pins(GPU))
        assert not pinned.pins(torch.device("cpu"))
    assert tile_stream.pins is pinned.pins
    return asked


def _transfers(case: Case, on: bool) -> object:
    case.patch.setattr(tile_canvas, "_StreamTransfer", lambda *_: "on a stream of its own")
    with using(RunSwitches(copy_stream=on)):
        transfer = tile_canvas._transfer_from(GPU, lambda *_: None)
        direct = tile_canvas._transfer_from(torch.device("cpu"), lambda *_: None)
    assert isinstance(direct, tile_canvas._DirectTransfer)
    return transfer if isinstance(transfer, str) else type(transfer)


def _streams(case: Case, on: bool) -> object:
    """The buffers that a stream of weights to a GPU uses."""
    taken: list[str] = []

    def take(name: str, *_: object) -> Any:
        taken.append(name)
        raise InterruptedError

    for name in ("GpuBuffers", "DirectBuffers"):
        case.patch.setattr(weight_streaming, name, partial(take, name))
    with using(RunSwitches(weights_stream=on)), pytest.raises(InterruptedError):
        WeightStream([nn.Linear(2, 2)], device=GPU, resident=0)
    return taken


def _at_once(case: Case, on: bool) -> object:
    """Tiles at a time in a plan for a GPU with room for two."""
    plan = seedvr2_plan(device="cuda", switches=Switches(run=RunSwitches(two_tiles=on)))
    room = Room(
        budget=pretended_budget(gpu_table.find("RTX 5090"), ram_bytes=2**34),
        frames=9,
        peak=lambda _: PhaseMemory(0),
        seconds=lambda _: 0.0,
    )
    return with_two_at_once(plan, room, {"decode": 2}).decode_at_once


def _variables(case: Case, switches: RunSwitches) -> object:
    return dict(environment.variables_of(switches))


UNFOLDED = {"first_frame_fold": False}
# Key of a switch -> what is observed with its usual value and with another one.
_OBSERVATIONS: dict[str, tuple[Callable[[Case, Any], object], Any, Any]] = {
    "vae.fp16_sums": (_kernel_sums, True, False),
    "vae.compile": (_compiled_norms, False, True),
    "vae.convolution": (_vae_calls, {"convolution": "2d"}, {"convolution": "3d"}),
    "vae.image_mode": (
        partial(_vae_calls, frames=1),
        UNFOLDED,
        {**UNFOLDED, "image_mode": False},
    ),
    "vae.chunked_attention": (_wide_attention, True, False),
    "dit.onednn_matmul": (_dit_calls, {"onednn_matmul": True}, {"onednn_matmul": False}),
    "dit.fp16_sums": (_promoted_products, True, False),
    "dit.compile": (_dit_steps, False, True),
    "run.cudnn_benchmark": (_flags_of, RunSwitches(), RunSwitches(cudnn_benchmark=False)),
    "run.tf32": (_flags_of, RunSwitches(), RunSwitches(tf32=True)),
    "run.pinned_transfers": (_pinned, True, False),
    "run.copy_stream": (_transfers, True, False),
    "run.weights_stream": (_streams, True, False),
    "run.two_tiles": (_at_once, False, True),
    "run.passive_threads": (_variables, RunSwitches(), RunSwitches(passive_threads=False)),
    "run.compiler": (_backend, RunSwitches(), RunSwitches(compiler="max-autotune")),
    "run.allocator": (_variables, RunSwitches(), RunSwitches(allocator="async")),
}
_MODELS = {"vae": _vae_calls, "dit": _dit_calls}
ENTRIES = [*optimisations(), *(entry for entry in choices() if not entry.setting)]


@pytest.fixture(scope="module")
def models() -> Case:
    onednn_serves(torch.empty(0))  # a first call finds out, once
    made = Case(tiny_vae(tiny_config((False, True))), random_dit(tiny_dit_config("7b", layers=2)))
    for _ in range(2):  # so do other first calls
        made.usual = {group: calls(made, {}) for group, calls in _MODELS.items()}
    return made


@pytest.fixture
def case(models: Case) -> Iterator[Case]:
    yield models
    models.patch.undo()


def test_every_switch_changes_what_happens(case: Case) -> None:
    for entry in ENTRIES:
        if entry.key in _OBSERVATIONS:
            observe, *values = _OBSERVATIONS[entry.key]
            usual, other = (observe(case, value) for value in values)
        else:
            changed = {entry.name: not getattr(entry, "default", False)}
            usual, other = case.usual[entry.group], _MODELS[entry.group](case, changed)
        case.patch.undo()
        assert other != usual, entry.key
    for group, calls in _MODELS.items():  # otherwise a difference would mean nothing
        assert calls(case, {}) == case.usual[group]


def test_switches_of_the_machine_are_put_back_after_an_error() -> None:
    before = current()
    with pytest.raises(InterruptedError), arithmetic_of(RunSwitches(tf32=True)):
        assert current().tf32
        raise InterruptedError
    assert current() is before
