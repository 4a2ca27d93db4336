from __future__ import annotations

import sys

import pytest

from engine.hardware import (
    devices,
    gpu_checks,
    gpu_processes,
    gpu_reading,
    shared_memory,
)
from engine.hardware.gpu_reading import Link
from engine.hardware.gpu_table import GIB
from engine.protocol.gpu_reading import Holder

CARD = devices.Gpu(
    name="NVIDIA GeForce RTX 4070",
    total_bytes=12 * GIB,
    free_bytes=9 * GIB,
    driver="580.1",
    capability=(8, 9),
)


@pytest.fixture(autouse=True)
def one_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "gpus", lambda: (CARD,))


@pytest.mark.parametrize(
    ("generation", "width", "state", "words"),
    [
        (4, 16, "ok", "PCIe 4.0 x16 of x16, 32 of 32 GB/s"),
        (3, 16, "ok", "PCIe 3.0 x16 of x16, 16 of 32 GB/s"),
        (4, 8, "warning", "PCIe 4.0 x8 of x16, 16 of 32 GB/s"),
        (3, 4, "warning", "PCIe 3.0 x4 of x16, 4 of 32 GB/s"),
    ],
)
def test_a_link_narrower_than_the_board_is_said(
    monkeypatch: pytest.MonkeyPatch, generation: int, width: int, state: str, words: str
) -> None:
    """The driver counts what the slot takes; what the board could is in the table."""
    link = Link(generation=generation, width=width, card_generation=4, card_width=width)
    monkeypatch.setattr(gpu_reading, "link_of", lambda _: link)
    (line,) = gpu_checks.card_link()
    assert line.state == state
    assert words in line.message
    assert bool(line.hint) == (state == "warning")


def test_a_link_that_nobody_tells_is_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_reading, "link_of", lambda _: None)
    assert list(gpu_checks.card_link()) == []


@pytest.mark.parametrize(
    ("found", "state", "message"),
    [
        ((), "ok", "no other program"),
        (
            (Holder(name="dwm.exe", mb=512), Holder(name="x.exe", mb=None)),
            "ok",
            "dwm.exe 0.5 GB, x.exe",
        ),
        ((Holder(name="game.exe", mb=4096),), "warning", "game.exe 4.0 GB"),
    ],
)
def test_who_holds_the_card_is_said(
    monkeypatch: pytest.MonkeyPatch, found: tuple[Holder, ...], state: str, message: str
) -> None:
    monkeypatch.setattr(gpu_processes, "others", lambda: found)
    (line,) = gpu_checks.card_programs()
    assert (line.state, line.message) == (state, message)


@pytest.mark.parametrize(("ours", "state"), [(0, "ok"), (None, "warning")])
def test_windows_whose_counters_are_broken_is_said(
    monkeypatch: pytest.MonkeyPatch, ours: int | None, state: str
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(shared_memory, "ours", lambda: ours)
    (line,) = gpu_checks.card_spilling()
    assert line.state == state


def test_without_a_card_there_is_nothing_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "gpus", tuple)
    for check in (gpu_checks.card_link, gpu_checks.card_programs, gpu_checks.card_spilling):
        assert list(check()) == []
