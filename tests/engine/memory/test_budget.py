from __future__ import annotations

from pathlib import Path

import pytest

from engine.hardware import devices
from engine.hardware.cards import GIB, cards, pretended
from engine.memory import budget as budgets
from engine.memory.budget import measure_budget, pretended_budget
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
    found = measure_budget(EngineSettings(), tmp_path, tmp_path)
    assert found.card == CARD
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
