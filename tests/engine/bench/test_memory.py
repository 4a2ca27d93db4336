from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from engine.bench import memory
from engine.bench.memory import PeakMemory, Traffic
from engine.bench.options import BenchOptions
from engine.bench.vae_work import base_run
from engine.errors import InternalError
from engine.geometry import Size
from engine.plain import from_plain, to_plain
from tests.helpers.tiny import tiny_config

MIB = 2**20
RUN = base_run(
    BenchOptions(config=tiny_config(), size=Size(32, 16), device="cpu", threads=1), "decode"
)


@pytest.mark.parametrize("counts", [True, False])
def test_a_peak_that_has_passed_is_seen(counts: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not counts:  # another system than Linux
        monkeypatch.setattr(memory, "_begin_anew", lambda: False)
    with PeakMemory() as peak:
        block = np.ones(64 * MIB, dtype=np.uint8)
        for _ in range(20):
            block += 1
        del block
    assert 60 * MIB < peak.above < 100 * MIB
    assert peak.before > 10 * MIB


def test_an_earlier_peak_is_not_counted() -> None:
    block = np.ones(128 * MIB, dtype=np.uint8)
    del block
    with PeakMemory() as peak:
        pass
    assert peak.above < 32 * MIB


def test_traffic_counts_what_is_read_and_written() -> None:
    x = torch.zeros(1000)  # 4000 bytes
    with Traffic() as traffic:
        y = x.view(10, 100)[2:]
        z = y + 1  # reads 3200, writes 3200
        z.add_(z)  # twice in, once out
    assert traffic.bytes == 2 * 3200 + 3 * 3200


def test_another_process_measures() -> None:
    found = memory.memory_of(RUN)
    assert found.is_alone
    assert found.loaded_bytes > 100 * MIB
    assert 0 <= found.peak_bytes < 100 * MIB
    work = replace(RUN, frames=5)
    here = memory.measure_here(work, is_alone=False)
    assert here.traffic_bytes > found.traffic_bytes > 0


def test_a_run_survives_the_way_to_another_process() -> None:
    assert from_plain(type(RUN), to_plain(RUN)) == RUN


def test_a_packed_program_measures_in_its_own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: pytest.fail("no process"))
    assert not memory.memory_of(RUN).is_alone


def test_a_process_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = SimpleNamespace(returncode=1, stdout="", stderr="Traceback\nMemoryError: full\n")
    monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: failed)
    with pytest.raises(InternalError) as caught:
        memory.memory_of(RUN)
    assert caught.value.hint == "MemoryError: full"
