"""Memory, threads and GPU that a job may use of this machine, measured once before planning."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from engine.core import gpu_loss
from engine.core.file_access import is_folder
from engine.hardware import commit, devices, gpu_table, torch_memory
from engine.hardware.commit import Commit
from engine.hardware.devices import Gpu
from engine.hardware.gpu_reading import link_of
from engine.hardware.gpu_table import GpuSpec
from engine.settings.schema import EngineSettings

PROGRAM_BYTES = 420 * 2**20  # interpreter, torch, codecs, idle

# For the desktop and the driver itself: beyond it Windows pages silently.
_VRAM_RESERVE_BYTES = 900 * 2**20
# Share of what torch may reserve that is for gaps between tensors. Counted on the pretended GPU:
# with its allocator as `runtimes.environment` sets it the streams go through with 3 % more than
# their tensors have at most.
_GAPS = 0.04
# In use before a job on a GPU that shows a desktop: with the reserve and the gaps about 2 GiB of 6,
# the share that others measured as lost on GPUs of 8 to 48 GB. Not seen on a GPU yet.
_DESKTOP_BYTES = 960 * 2**20
# Of promised memory, for other programs and for CUDA's libraries, whose writable parts Windows
# counts. A guess: it was measured on no computer.
_COMMIT_RESERVE_BYTES = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededRuntime:
    """A build of torch without which the GPU of this machine computes nothing."""

    id: str  # in the catalogue of runtimes
    bytes: int  # to download, about


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits of one job."""

    ram_bytes: int  # RAM that may be used, the program itself included; see `ram_beside`
    threads: int  # CPU threads
    window_bytes: int = 0  # RAM of the window that runs jobs in its process
    has_fast_bf16: bool = False  # the CPU multiplies bfloat16 faster than float32
    cuda: bool = False  # there is a GPU that the installed torch can use
    commit: Commit | None = None  # memory that the system promises to a job; None: without limit
    vram_bytes: int = 0  # memory of the GPU for tensors; also where torch cannot use it
    vram_share: float = 1.0  # most of the memory of each GPU, by the user's setting `vram_limit`
    is_vram_limited: bool = False  # by that setting, not by what other programs leave
    capability: tuple[int, int] | None = None  # CUDA capability of the GPU
    gpu: GpuSpec | None = None  # its specification; None for one that is not in the table
    gpu_value: str = ""  # value of the setting `device` for that GPU; "" without one
    gpu_is_gone: bool = False  # another GPU was asked for that is not here
    gpu_losses: int = 0  # times that it was lost in jobs, with the driver that it has
    title: str = ""  # title of the GPU, with its number where several are alike
    gpus: tuple[Budget, ...] = ()  # one budget for each GPU that "all" means, the fastest first
    is_pretended: bool = False  # the GPU is not in this machine
    needed_runtime: NeededRuntime | None = None  # first, where `cuda` is to hold
    free_output_bytes: int | None = 0  # on the disk of the result; None without its folder
    free_jobs_bytes: int = 0  # on the disk of the job folder
    same_disk: bool = True

    def ram_beside(self, vram_bytes: int) -> int:
        """RAM that a job may use next to n bytes of GPU memory, which Windows promises twice."""
        if self.commit is None:
            return self.ram_bytes
        promised = vram_bytes if self.commit.counts_vram else 0
        return max(0, min(self.ram_bytes, self.commit.left_bytes - promised))

    @property
    def gpu_has_bf16(self) -> bool:
        """Whether the GPU multiplies bfloat16 in its matrix units; also one that is not known."""
        return _has_bf16(self.capability)

    @property
    def vram_limit_bytes(self) -> int:
        """Bytes that torch may reserve for these tensors, with the gaps between them."""
        return round(self.vram_bytes / (1 - _GAPS))

    @property
    def gpu_memory_bytes(self) -> int:
        """Size of the GPU's memory, approximate for one that is not in the table; 0 without one.

        Lasting choices (which file to download) depend on it, not on what is free at present.
        """
        if self.gpu is not None:
            return self.gpu.memory_bytes
        reserve = _DESKTOP_BYTES + _VRAM_RESERVE_BYTES
        return self.vram_limit_bytes + reserve if self.vram_bytes else 0

    @property
    def idle(self) -> Budget:
        """Budget while no other program but the desktop uses the GPU."""
        gpus = tuple(one.idle for one in self.gpus)
        idle = _vram(self, self.gpu_memory_bytes, _DESKTOP_BYTES).vram_bytes
        idle = min((one.vram_bytes for one in gpus), default=max(self.vram_bytes, idle))
        return replace(self, vram_bytes=idle, gpus=gpus)


def measure_budget(
    settings: EngineSettings,
    output: Path,
    jobs: Path,
    pretend: Sequence[GpuSpec] = (),
    *,
    device: str = devices.AUTO,
    excluded: Sequence[str] = (),
    needed: NeededRuntime | None = None,
) -> Budget:
    """Measure the machine; takes milliseconds and loads neither torch nor a driver.

    Args:
        settings: Share of memory and number of threads.
        output: Path of the result; need not exist.
        jobs: Folder of the job folders; need not exist.
        pretend: GPUs in place of the machine's own, if there are any.
        device: Device as in the settings of a job.
        excluded: Names of GPUs that "all" leaves out.
        needed: A runtime that the machine's own GPU lacks; the budget has the GPU all the same.

    Raises:
        SettingsError: All GPUs are wanted, and all are excluded.
    """
    found = gpus_here(pretend, awaited=needed is not None)
    here = replace(_measured(settings, output, jobs), needed_runtime=needed)
    each = _with_each(here, found, pretend)
    if device == devices.ALL:
        return _together(here, [each[gpu] for gpu in devices.together(found, excluded)])
    gpu = devices.chosen(device, found) or devices.chosen(devices.AUTO, found)
    is_gone = devices.chosen(device, found) is None and device not in devices.UNNAMED
    return replace(here if gpu is None else each[gpu], gpu_is_gone=is_gone)


def _with_each(
    budget: Budget, gpus: Sequence[Gpu], pretend: Sequence[GpuSpec]
) -> dict[Gpu, Budget]:
    """Budgets of a computer with each of its GPUs, or with pretended ones."""
    return {
        gpu: replace(
            with_gpu(budget, pretend[gpu.number]) if pretend else _with_own(budget, gpu),
            gpu_value=devices.value_of(gpu, gpus),
            title=title,
        )
        for gpu, title in zip(gpus, titles_of(gpus, pretend), strict=True)
    }


def _together(budget: Budget, each: Sequence[Budget]) -> Budget:
    """Budget with several GPUs, the fastest first; without any, of the computer alone."""
    return replace(each[0], gpus=tuple(each)) if each else budget


def gpus_here(pretend: Sequence[GpuSpec] = (), *, awaited: bool = False) -> tuple[Gpu, ...]:
    """GPUs that jobs can run on, or are planned for.

    Next to newer ones, those older than the oldest of the table are left out: builds of torch have
    no code for them.

    Args:
        pretend: In place of the machine's own, if there are any.
        awaited: Whether a torch that can use the machine's own is about to be installed.
    """
    if pretend or not (awaited or torch_has_cuda()):
        return devices.as_gpus(pretend)
    found = devices.gpus()
    return tuple(gpu for gpu in found if (gpu.capability or (0, 0)) >= gpu_table.OLDEST) or found


def gpu_here(pretend: GpuSpec | None = None, *, awaited: bool = False) -> tuple[str, int, bool]:
    """Title and bytes of the GPU that jobs are planned for; "" and 0 without one.

    And whether it multiplies bfloat16 in its matrix units.

    Args:
        pretend: A GPU in place of the machine's own.
        awaited: Whether a torch that can use the machine's own is about to be installed.
    """
    if pretend is not None:
        return pretend.title, pretend.memory_bytes, _has_bf16(pretend.capability)
    gpu = devices.chosen(devices.AUTO, gpus_here(awaited=awaited))
    if gpu is None:
        return "", 0, True
    spec = gpu_table.find(gpu.name, gpu.total_bytes)
    memory = gpu.total_bytes if spec is None else spec.memory_bytes
    return title_of(gpu), memory, _has_bf16(gpu.capability)


def title_of(gpu: Gpu) -> str:
    """Short name of a GPU with its memory: "RTX 5070 Ti, 16 GB"."""
    spec = gpu_table.find(gpu.name, gpu.total_bytes)
    if spec is None:
        return f"{gpu.name}, {gpu.total_bytes / gpu_table.GIB:.2g} GB"
    return spec.title


def titles_of(gpus: Sequence[Gpu], pretend: Sequence[GpuSpec] = ()) -> list[str]:
    """A title for each GPU, with its number where several are alike.

    Args:
        gpus: GPUs of this computer, or the pretended ones.
        pretend: Specifications of pretended ones.
    """
    found = [spec.title for spec in pretend] or [title_of(gpu) for gpu in gpus]
    return [
        title if found.count(title) == 1 else f"{title} ({gpu.number})"
        for gpu, title in zip(gpus, found, strict=True)
    ]


def pretended_budget(
    gpu: GpuSpec | None, *others: GpuSpec, ram_bytes: int, threads: int = 8
) -> Budget:
    """Budget of a job on another computer; measures nothing.

    Args:
        gpu: GPU of the table; None for a computer without one.
        others: GPUs that work together with it.
        ram_bytes: RAM that a job may use, bytes.
        threads: Number of threads of the CPU.
    """
    disk = 2**42
    bare = Budget(
        ram_bytes=ram_bytes, threads=threads, free_output_bytes=disk, free_jobs_bytes=disk
    )
    if gpu is None:
        return bare
    specs = (gpu, *others)
    here = devices.as_gpus(specs)
    each = _with_each(bare, here, specs)
    return (
        _together(bare, [each[one] for one in devices.together(here)]) if others else each[here[0]]
    )


def with_gpu(budget: Budget, gpu: GpuSpec) -> Budget:
    """Budget of the computer with a GPU that it does not have."""
    return replace(
        _vram(budget, gpu.memory_bytes, _DESKTOP_BYTES),
        cuda=True,
        capability=gpu.capability,
        gpu=gpu,
        is_pretended=True,
    )


def _measured(settings: EngineSettings, output: Path, jobs: Path) -> Budget:
    """Budget without a GPU. Memory of this process counts as free: a planned job runs later."""
    total, available = devices.ram()
    own, promised = devices.own_ram(), commit.commit()
    if promised is not None:
        left = max(0, promised.left_bytes + own - _COMMIT_RESERVE_BYTES)
        promised = replace(promised, left_bytes=left)
    out_folder, jobs_folder = _existing(output), _existing(jobs)
    is_there = out_folder in (output.absolute(), output.absolute().parent)
    return Budget(
        ram_bytes=round(min(total, available + own) * settings.memory_share),
        commit=promised,
        vram_share=settings.vram_limit,
        threads=settings.threads or devices.cpu_threads(),
        has_fast_bf16=devices.cpu_has_bf16(),
        free_output_bytes=shutil.disk_usage(out_folder).free if is_there else None,
        free_jobs_bytes=shutil.disk_usage(jobs_folder).free,
        same_disk=out_folder.stat().st_dev == jobs_folder.stat().st_dev,
    )


def _with_own(budget: Budget, gpu: Gpu) -> Budget:
    """Budget with a GPU of this computer."""
    free = min(gpu.total_bytes, gpu.free_bytes + torch_memory.gpu_bytes(gpu.number))
    return replace(
        _vram(budget, gpu.total_bytes, gpu.total_bytes - free),
        cuda=budget.needed_runtime is None,
        capability=gpu.capability,
        gpu=_spec(gpu),
        gpu_losses=gpu_loss.losses(gpu.name, gpu.driver),
    )


def _has_bf16(capability: tuple[int, int] | None) -> bool:
    return (capability or (8, 0)) >= (8, 0)


def _vram(budget: Budget, total_bytes: int, used_bytes: int) -> Budget:
    """The budget with the memory that a GPU has for tensors.

    Args:
        budget: Budget with the user's limit.
        total_bytes: Memory of the GPU.
        used_bytes: Memory that other programs use.
    """
    left, allowed = total_bytes - used_bytes - _VRAM_RESERVE_BYTES, budget.vram_share * total_bytes
    return replace(
        budget,
        vram_bytes=max(0, int(min(left, allowed) * (1 - _GAPS))),
        is_vram_limited=allowed < left,
    )


def _spec(gpu: Gpu) -> GpuSpec | None:
    """The GPU of the table, with the PCIe link that it has in this machine."""
    spec, link = gpu_table.find(gpu.name, gpu.total_bytes), link_of(gpu)
    if spec is None or link is None or not link.bandwidth:
        return spec
    return replace(spec, link_bandwidth=min(spec.link_bandwidth, link.bandwidth))


@cache
def torch_has_cuda() -> bool:
    """Whether the installed torch is built for NVIDIA GPUs, judged by its files."""
    found = importlib.util.find_spec("torch")
    folder = Path(found.origin).parent / "lib" if found and found.origin else None
    return folder is not None and any(folder.glob("*torch_cuda*"))


def _existing(path: Path) -> Path:
    """The nearest existing folder."""
    path = path.absolute()
    while not is_folder(path) and path != path.parent:
        path = path.parent
    return path
