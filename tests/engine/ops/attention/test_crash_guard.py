from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.core import paths
from engine.ops.attention import trial
from engine.ops.attention.backends import Backend
from engine.ops.attention.trial import CrashGuard

CPU = torch.device("cpu")


def never(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    raise AssertionError("it was tried")


FOREIGN = Backend(name="foreign", run=never, package="foreign-attention")
OWN = Backend(name="own", run=never)


def files() -> list[Path]:
    return list(paths.cache_folder().glob("attention-trying-*"))


def test_a_program_that_ended_inside_does_not_try_again() -> None:
    CrashGuard(FOREIGN, CPU).__enter__()  # and then the program is gone
    assert CrashGuard(FOREIGN, CPU).has_crashed
    trial.fault_of.cache_clear()
    assert "the program ended" in trial.fault_of(FOREIGN, CPU, torch.float32, 32)


def test_another_torch_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    CrashGuard(FOREIGN, CPU).__enter__()
    monkeypatch.setattr(torch, "__version__", "99")
    assert not CrashGuard(FOREIGN, CPU).has_crashed


def test_an_error_inside_is_no_fall() -> None:
    with pytest.raises(AssertionError), CrashGuard(FOREIGN, CPU):
        assert len(files()) == 1
        never(*4 * (torch.zeros(1),))
    assert not files()
    assert not CrashGuard(FOREIGN, CPU).has_crashed


def test_what_torch_brings_needs_no_guard() -> None:
    with CrashGuard(OWN, CPU):
        assert not files()
    assert not CrashGuard(OWN, CPU).has_crashed


def test_a_lost_gpu_is_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(device: torch.device) -> None:
        raise RuntimeError("an illegal memory access")

    card = torch.device("cuda", 0)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a card")
    monkeypatch.setattr(torch.cuda, "synchronize", lost)
    with pytest.raises(RuntimeError), CrashGuard(FOREIGN, card):
        pass
    assert CrashGuard(FOREIGN, card).has_crashed
