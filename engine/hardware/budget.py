"""What a job may use of this machine, measured once before planning."""

from __future__ import annotations

import importlib.util
import shutil
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from engine.hardware import devices, features, gpu_table, torch_memory
from engine.hardware.devices import Gpu
from engine.hardware.gpu_reading import link_of
from engine.hardware.gpu_table import Card
from engine.settings.schema import EngineSettings

PROGRAM_BYTES = 420 * 2**20  # interpreter, torch, codecs, with nothing to do

# Left to the desktop and to what the driver takes for itself: Windows pages silently beyond.
_VRAM_RESERVE_BYTES = 900 * 2**20
# What is taken before we begin of a card that shows a desktop: with the reserve 2 GiB, the share
# that others measured as lost on cards of 8 to 48 GB. Not seen on a card yet.
_DESKTOP_BYTES = 2 * 2**30 - _VRAM_RESERVE_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits of one job."""

    ram_bytes: int  # that may be taken, all of the program included
    threads: int  # of the processor
    has_fast_bf16: bool = False  # the processor multiplies bfloat16 faster than float32
    cuda: bool = False  # a card that the installed torch can use
    vram_bytes: int = 0  # of that card, that may be taken
    capability: tuple[int, int] | None = None  # of CUDA, of that card
    card: Card | None = None  # what it can do at most; None for one that is in no table
    is_pretended: bool = False  # it is not here
    free_output_bytes: int = 0  # on the disk of the result
    free_jobs_bytes: int = 0  # on the disk of the job folder
    same_disk: bool = True

    @property
    def card_bytes(self) -> int:
        """Size of the card's memory, about right for one that is in no table; 0 without one.

        What lasts (which file to download) goes by it, not by what is free at the moment.
        """
        if self.card is not None:
            return self.card.memory_bytes
        return self.vram_bytes + _DESKTOP_BYTES + _VRAM_RESERVE_BYTES if self.cuda else 0


def measure_budget(
    settings: EngineSettings, output: Path, jobs: Path, pretend: Card | None = None
) -> Budget:
    """Look at the machine; takes milliseconds and loads neither torch nor a driver.

    Args:
        settings: Share of memory and number of threads.
        output: Where the result will be; need not exist.
        jobs: Folder of the job folders; need not exist.
        pretend: A card in the place of the one that is here, if any is.
    """
    here = _measured(settings, output, jobs)
    return here if pretend is None else with_card(here, pretend)


def card_here(pretend: Card | None = None) -> tuple[str, int]:
    """Title and bytes of the card that jobs are planned for; "" and 0 without one.

    Args:
        pretend: A card in the place of the one that is here.
    """
    gpu = next(iter(devices.gpus()), None) if _torch_has_cuda() else None
    card = pretend or (gpu_table.find(gpu.name, gpu.total_bytes) if gpu else None)
    if card is not None:
        return card.title, card.memory_bytes
    if gpu is None:
        return "", 0
    return f"{gpu.name}, {gpu.total_bytes / gpu_table.GIB:.2g} GB", gpu.total_bytes


def pretended_budget(card: Card | None, *, ram_bytes: int, threads: int = 8) -> Budget:
    """What a job might use of a machine that is not here; looks at nothing.

    Args:
        card: Of the table; None for a machine without one.
        ram_bytes: Of main memory, that a job may take.
        threads: Of the processor.
    """
    disk = 2**42
    bare = Budget(
        ram_bytes=ram_bytes, threads=threads, free_output_bytes=disk, free_jobs_bytes=disk
    )
    return bare if card is None else with_card(bare, card)


def with_card(budget: Budget, card: Card) -> Budget:
    """The same machine with a card that it does not have."""
    return replace(
        budget,
        cuda=True,
        vram_bytes=max(0, card.memory_bytes - _DESKTOP_BYTES - _VRAM_RESERVE_BYTES),
        capability=card.capability,
        card=card,
        is_pretended=True,
    )


def _measured(settings: EngineSettings, output: Path, jobs: Path) -> Budget:
    """What we hold ourselves counts as free: a job that is planned now runs after the present."""
    total, available = devices.ram()
    gpus = devices.gpus() if _torch_has_cuda() else ()
    out_folder, jobs_folder = _existing(output), _existing(jobs)
    return Budget(
        ram_bytes=round(min(total, available + devices.own_ram()) * settings.memory_share),
        threads=settings.threads or devices.cpu_threads(),
        has_fast_bf16=features.cpu_has_bf16(),
        cuda=bool(gpus),
        vram_bytes=_vram(gpus[0]) if gpus else 0,
        capability=gpus[0].capability if gpus else None,
        card=_card(gpus[0]) if gpus else None,
        free_output_bytes=shutil.disk_usage(out_folder).free,
        free_jobs_bytes=shutil.disk_usage(jobs_folder).free,
        same_disk=out_folder.stat().st_dev == jobs_folder.stat().st_dev,
    )


def _vram(gpu: Gpu) -> int:
    free = min(gpu.total_bytes, gpu.free_bytes + torch_memory.card_bytes())
    return max(0, free - _VRAM_RESERVE_BYTES)


def _card(gpu: Gpu) -> Card | None:
    """The card of the table, with the link that it has here."""
    card, link = gpu_table.find(gpu.name, gpu.total_bytes), link_of(gpu)
    if card is None or link is None or not link.bandwidth:
        return card
    return replace(card, link_bandwidth=min(card.link_bandwidth, link.bandwidth))


@cache
def _torch_has_cuda() -> bool:
    """Whether the installed torch is built for NVIDIA cards, told by its files."""
    found = importlib.util.find_spec("torch")
    folder = Path(found.origin).parent / "lib" if found and found.origin else None
    return folder is not None and any(folder.glob("*torch_cuda*"))


def _existing(path: Path) -> Path:
    """The nearest folder that is there."""
    path = path.absolute()
    while not path.is_dir() and path != path.parent:
        path = path.parent
    return path
