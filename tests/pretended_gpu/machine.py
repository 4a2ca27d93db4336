"""Puts a pretended GPU in the place of torch's own."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch

from engine.ops.kernels import build
from tests.pretended_gpu.gpu import (
    Event,
    FunctionMode,
    GpuMode,
    PretendedGpu,
    Stream,
)
from tests.pretended_gpu.guard import load_guard
from tests.pretended_gpu.kernels import PretendedModule

NAME = "Pretended RTX"


def _compiled(gpu: PretendedGpu, modules: type[PretendedModule]) -> Callable[..., Any]:
    """Kernels of the pretended GPU; those of tensors without values, which plans measure, stay."""
    real = build.compiled

    def compiled(device: torch.device, name: str, options: tuple[str, ...]) -> Any:
        if device == build.VALUELESS:
            return real(device, name, options)
        return modules(gpu, name, options)

    return compiled


@contextmanager
def pretended_gpu(
    *,
    has_values: bool = True,
    capability: tuple[int, int] = (8, 9),
    total_bytes: int = 12 * 2**30,
    processors: int = 2,
    modules: type[PretendedModule] = PretendedModule,
) -> Iterator[PretendedGpu]:
    """Inside, torch has a GPU, in this thread and in those that are started inside.

    Args:
        has_values: See PretendedGpu.
        capability: Of the GPU.
        total_bytes: Its memory.
        processors: Its streaming multiprocessors.
        modules: What stands in for compiled kernels.
    """
    load_guard()
    gpu = PretendedGpu(has_values=has_values, total_bytes=total_bytes)
    cuda = _cuda(gpu, capability, total_bytes, processors)
    conversion = torch.__future__.get_overwrite_module_params_on_conversion()
    with ExitStack() as stack:
        for name, value in cuda.items():
            stack.enter_context(patch.object(torch.cuda, name, value, create=True))
        backends: Any = torch.backends
        for owner, name, value in (
            (torch.version, "cuda", "13.0"),
            (torch, "Generator", _Generator),
            (backends.cuda, "SDPAParams", lambda *args: args),
            (backends.cuda, "can_use_efficient_attention", lambda params, debug=False: True),
            (backends.cudnn, "version", lambda: 91500),
            (threading.Thread, "run", _run_with_modes(gpu)),
        ):
            stack.enter_context(patch.object(owner, name, value))
        workspaces = "_cuda_clearCublasWorkspaces"  # a CPU build has no such function
        stack.enter_context(patch.object(torch._C, workspaces, lambda: None, create=True))
        stack.enter_context(patch.object(build, "compiled", _compiled(gpu, modules)))
        if not has_values:  # what cannot be compared is trusted
            checked = "engine.ops.kernels.build.checked"
            stack.enter_context(patch(checked, lambda what, make, error: make()))
            stack.enter_context(patch("engine.ops.attention.attention._error_of", lambda *_: 0.0))
        torch.__future__.set_overwrite_module_params_on_conversion(True)
        _forget()
        try:
            with FunctionMode(gpu), GpuMode(gpu):
                yield gpu
        finally:
            _forget()
            torch.__future__.set_overwrite_module_params_on_conversion(conversion)


class _Generator(torch.Generator):
    """A generator for any device: values are drawn on the processor."""

    def __new__(cls, device: object = "cpu") -> _Generator:
        """One for the processor."""
        return super().__new__(cls)


def _run_with_modes(gpu: PretendedGpu) -> Any:
    real = threading.Thread.run

    def run(thread: threading.Thread) -> None:
        with FunctionMode(gpu), GpuMode(gpu):
            real(thread)

    return run


def _forget() -> None:
    """Clear what the program remembers of devices: caches of functions below `engine`.

    What VAEs take stays: it is measured without values, for a use and not for the device that is
    here, and takes longer than most jobs.
    """
    for name, module in list(sys.modules.items()):
        if name in ("engine.models.video_vae.measuring", "engine.models.video_vae.measured_memory"):
            continue
        if name.startswith(("engine.ops", "engine.hardware", "engine.models")):
            for value in vars(module).values():
                if hasattr(value, "cache_clear") and not isinstance(value, type):
                    value.cache_clear()


def _cuda(
    gpu: PretendedGpu, capability: tuple[int, int], total_bytes: int, processors: int
) -> dict[str, Any]:
    """What stands in for parts of torch.cuda."""
    properties = SimpleNamespace(
        multi_processor_count=processors,
        total_memory=total_bytes,
        name=NAME,
        major=capability[0],
        minor=capability[1],
    )

    allocator = gpu.allocator

    def limit(share: float, number: int) -> None:
        gpu.check_lost()
        assert number == gpu.number, "another GPU's memory is limited"
        allocator.limit = int(share * total_bytes)

    def empty_cache() -> None:
        gpu.check_lost()
        allocator.empty()

    return {
        "_lazy_init": lambda: None,
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device": gpu.device,
        "device_count": lambda: 2,
        "current_device": lambda: gpu.number,
        "get_device_capability": lambda _=None: capability,
        "get_device_properties": lambda _=None: properties,
        "get_device_name": lambda _=None: NAME,
        "mem_get_info": lambda _=None: (total_bytes - allocator.reserved, total_bytes),
        "memory_allocated": lambda _=None: allocator.allocated,
        "max_memory_allocated": lambda _=None: allocator.peak,
        "memory_reserved": lambda _=None: allocator.reserved,
        "max_memory_reserved": lambda _=None: allocator.most_reserved,
        "memory_stats": lambda _=None: {
            "num_device_alloc": allocator.requests,
            "requested_bytes.all.current": allocator.requested,
            "requested_bytes.all.peak": allocator.most_requested,
            "allocated_bytes.all.peak": allocator.peak,
            "reserved_bytes.all.peak": allocator.most_reserved,
        },
        "reset_peak_memory_stats": allocator.forget_peak,
        "host_memory_stats": lambda: {"allocated_bytes.current": 0},
        "set_per_process_memory_fraction": limit,
        "empty_cache": empty_cache,
        "synchronize": gpu.synchronize,
        "Stream": lambda _=None, **__: Stream(gpu, f"stream {len(gpu.streams)}"),
        "Event": lambda **options: Event(gpu, **options),
        "stream": gpu.on,
        "current_stream": lambda _=None: gpu.current,
        "cudart": lambda: _Runtime(gpu),
        # noise comes from the generator of the processor, which torch saves and seeds as well
        "get_rng_state": lambda _=None: torch.get_rng_state(),
        "set_rng_state": lambda _state, _=None: None,
        "manual_seed_all": lambda _seed: None,
    }


class _Runtime:
    """Stands in for CUDA's runtime."""

    def __init__(self, gpu: PretendedGpu) -> None:
        self._gpu = gpu

    def cudaHostRegister(self, address: int, size: int, _: int) -> int:
        """Pin memory."""
        self._gpu.registered[address] = size
        return 0

    def cudaHostUnregister(self, address: int) -> int:
        """Unpin it."""
        self._gpu.registered.pop(address, None)
        return 0
