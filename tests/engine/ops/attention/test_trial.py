from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from engine.core import paths
from engine.ops.attention import attention
from engine.ops.attention.attention import CrashGuard
from engine.ops.attention.backends import Backend

CPU = torch.device("cpu")


NEVER = Mock(side_effect=AssertionError("it was tried"))
FOREIGN = Backend(name="foreign", run=NEVER, package="foreign-attention")


def files() -> list[Path]:
    return list(paths.cache_folder().glob("attention-trying-*"))


def test_a_program_that_ended_inside_does_not_try_again_with_the_same_torch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    CrashGuard(FOREIGN, CPU).__enter__()  # and then the program is gone
    assert CrashGuard(FOREIGN, CPU).has_crashed
    attention.fault_of.cache_clear()
    assert "the program crashed" in attention.fault_of(FOREIGN, CPU, torch.float32, 32)
    monkeypatch.setattr(torch, "__version__", "99")
    assert not CrashGuard(FOREIGN, CPU).has_crashed


def test_an_error_inside_is_no_crash_and_what_torch_brings_needs_no_guard() -> None:
    own = Backend(name="own", run=NEVER)
    for backend, guards in ((FOREIGN, 1), (own, 0)):
        with pytest.raises(KeyError), CrashGuard(backend, CPU):
            assert len(files()) == guards
            raise KeyError
        assert not files()
        assert not CrashGuard(backend, CPU).has_crashed


def test_a_lost_gpu_is_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, lost = torch.device("cuda", 0), RuntimeError("an illegal memory access")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    monkeypatch.setattr(torch.cuda, "synchronize", Mock(side_effect=lost))
    with pytest.raises(RuntimeError), CrashGuard(FOREIGN, gpu):
        pass
    assert CrashGuard(FOREIGN, gpu).has_crashed
