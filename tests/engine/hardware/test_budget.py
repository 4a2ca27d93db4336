from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from engine.hardware import budget as budgets
from engine.hardware import devices
from engine.hardware.budget import Budget, measure_budget, pretended_budget
from engine.hardware.gpu_reading import Link
from engine.hardware.gpu_table import GIB, cards, pretended
from engine.settings.schema import EngineSettings

CARD = pretended("RTX 5070 Ti")


def test_a_pretended_card_has_what_a_desktop_leaves_of_it(tmp_path: Path) -> None:
    plain = measure_budget(EngineSettings(), tmp_path, tmp_path)
    found = measure_budget(EngineSettings(), tmp_path, tmp_path, CARD)
    assert found.cuda
    assert found.is_pretended
    assert found.card == CARD
    assert found.capability == (12, 0)
    assert found.vram_bytes == 14 * GIB
    assert (found.threads, found.same_disk) == (plain.threads, plain.same_disk)


def test_the_own_card_is_not_pretended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = devices.Gpu(
        name=CARD.name,
        total_bytes=16303 * 2**20,
        free_bytes=15 * GIB,
        driver="580.1",
        capability=(12, 0),
    )
    monkeypatch.setattr(devices, "gpus", lambda: (gpu,))
    monkeypatch.setattr(budgets, "_torch_has_cuda", lambda: True)
    narrow = Link(generation=4, width=8, card_generation=5, card_width=16)
    monkeypatch.setattr(budgets, "link_of", lambda _: narrow)
    found = measure_budget(EngineSettings(), tmp_path, tmp_path)
    assert found.card == replace(CARD, link_bandwidth=narrow.bandwidth)
    assert found.card_bytes == 16 * GIB
    assert not found.is_pretended
    assert 14 * GIB < found.vram_bytes < 15 * GIB


@pytest.mark.parametrize("card", cards(), ids=lambda card: card.title)
def test_every_card_leaves_something(card) -> None:
    found = pretended_budget(card, ram_bytes=16 * GIB)
    assert found.vram_bytes == card.memory_bytes - 2 * GIB
    assert found == pretended_budget(card, ram_bytes=16 * GIB)


def test_a_machine_without_a_card_can_be_pretended_too() -> None:
    found = pretended_budget(None, ram_bytes=16 * GIB, threads=4)
    assert not found.cuda
    assert not found.is_pretended
    assert (found.ram_bytes, found.threads, found.vram_bytes) == (16 * GIB, 4, 0)


def test_the_size_of_a_card_lasts_whatever_is_free_of_it() -> None:
    assert pretended_budget(CARD, ram_bytes=GIB).card_bytes == 16 * GIB
    assert pretended_budget(None, ram_bytes=GIB).card_bytes == 0
    unknown = Budget(ram_bytes=GIB, threads=1, cuda=True, vram_bytes=14 * GIB)
    assert unknown.card_bytes == 16 * GIB


def test_what_a_running_job_holds_is_free_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A film that was added while another ran was planned into what that one left."""
    gpu = devices.Gpu(
        name=CARD.name,
        total_bytes=16 * GIB,
        free_bytes=2 * GIB,
        driver="580.1",
        capability=(12, 0),
    )
    monkeypatch.setattr(devices, "gpus", lambda: (gpu,))
    monkeypatch.setattr(budgets, "_torch_has_cuda", lambda: True)
    monkeypatch.setattr(budgets.torch_memory, "card_bytes", lambda: 12 * GIB)
    monkeypatch.setattr(devices, "ram", lambda: (32 * GIB, 10 * GIB))
    monkeypatch.setattr(devices, "own_ram", lambda: 12 * GIB)
    found = measure_budget(EngineSettings(memory_share=0.5), tmp_path, tmp_path)
    assert found.vram_bytes == 14 * GIB - 900 * 2**20
    assert found.ram_bytes == 11 * GIB


def test_own_memory_grows_by_what_is_taken() -> None:
    before = devices.own_ram()
    held = os.urandom(64 * 2**20)
    assert 48 * 2**20 < devices.own_ram() - before < 96 * 2**20
    assert len(held) == 64 * 2**20
