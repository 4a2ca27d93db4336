"""What the self-test asks about a card beside whether it works; nothing without one."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from engine.hardware import (
    devices,
    gpu_processes,
    gpu_reading,
    gpu_table,
    shared_memory,
)
from engine.hardware.gpu_table import GIB
from engine.protocol.report import DoctorLine

_MUCH_MB = 2048  # that others may hold before it is worth a word


def card_link() -> Iterator[DoctorLine]:
    """How fast weights come from main memory."""
    for gpu in devices.gpus():
        link = gpu_reading.link_of(gpu)
        if link is None:
            continue
        card = gpu_table.find(gpu.name, gpu.total_bytes)
        board = max(card.link_bandwidth if card else 0.0, link.board_bandwidth)
        lanes = max(card.lanes if card else 0, link.card_width)
        text = (
            f"{gpu.name}: {gpu_reading.link_text(link)} of x{lanes}, "
            f"{link.bandwidth / 1e9:.0f} of {board / 1e9:.0f} GB/s"
        )
        if link.width >= lanes:
            yield DoctorLine(name="card link", state="ok", message=text)
        else:
            hint = (
                "Weights that come from main memory take longer: put the card into the slot "
                "next to the processor, or choose a smaller file of the model."
            )
            yield DoctorLine(name="card link", state="warning", message=text, hint=hint)


def card_programs() -> Iterator[DoctorLine]:
    """Who else holds memory of the card."""
    found = gpu_processes.others()
    if not devices.gpus():
        return
    words = ", ".join(f"{holder.name} {_size(holder.mb)}".strip() for holder in found)
    if sum(holder.mb or 0 for holder in found) < _MUCH_MB:
        yield DoctorLine(name="card programs", state="ok", message=words or "no other program")
    else:
        hint = "Close what you do not need: plans get smaller by what others hold."
        yield DoctorLine(name="card programs", state="warning", message=words, hint=hint)


def card_spilling() -> Iterator[DoctorLine]:
    """Whether it would be seen that Windows moves the card's memory to main memory."""
    if sys.platform != "win32" or not devices.gpus():
        return
    name = "card spilling"
    if shared_memory.ours() is not None:
        yield DoctorLine(name=name, state="ok", message="Windows counts what leaves the card")
        return
    yield DoctorLine(
        name=name,
        state="warning",
        message="Windows does not count what leaves the card: slowing down would not be noticed",
        hint="Its counters are damaged: as administrator, run `lodctr /R`, then start again.",
    )


def _size(mb: int | None) -> str:
    return "" if mb is None else f"{mb * 2**20 / GIB:.1f} GB"
