from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from engine.bench.cases.vae_runs import base_run
from engine.bench.options import BenchOptions
from engine.bench.timing import process_memory
from engine.bench.timing.process_memory import Traffic
from engine.core.errors import InternalError
from engine.core.geometry import Size
from engine.core.serialization import to_plain
from tests.helpers.tiny import tiny_config

MIB = 2**20
RUN = base_run(
    BenchOptions(config=tiny_config(), size=Size(32, 16), device="cpu", threads=1), "decode"
)


_PROBE = """
import sys
import time

import numpy as np

from engine.bench.timing import process_memory as memory

if sys.argv[2] == "looks":  # as on another system than Linux
    memory._begin_anew = lambda: False
early = np.ones(128 * 2**20 if sys.argv[1] == "early" else 1, dtype=np.uint8)
del early
with memory.PeakMemory() as peak:
    if sys.argv[1] == "inside":
        block = np.ones(64 * 2**20, dtype=np.uint8)
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            block += 1
            time.sleep(0.001)  # so that who looks comes to it on a busy machine
        del block
print(peak.before, peak.above)
"""


def measured(*how: str) -> tuple[int, int]:
    """Bytes before and above, in a process of its own: what a process did before counts here."""
    command = [sys.executable, "-c", _PROBE, *how]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    before, above = done.stdout.split()
    return int(before), int(above)


@pytest.mark.parametrize("way", ["counts", "looks"])
def test_a_peak_that_has_passed_is_seen(way: str) -> None:
    before, above = measured("inside", way)
    assert 60 * MIB < above < 100 * MIB
    assert before > 10 * MIB


@pytest.mark.parametrize("way", ["counts", "looks"])
def test_an_earlier_peak_is_not_counted(way: str) -> None:
    assert measured("early", way)[1] < 32 * MIB


def test_traffic_counts_what_is_read_and_written() -> None:
    x = torch.zeros(1000)  # 4000 bytes
    with Traffic() as traffic:
        y = x.view(10, 100)[2:]
        z = y + 1  # reads 3200, writes 3200
        z.add_(z)  # twice in, once out
    assert traffic.bytes == 2 * 3200 + 3 * 3200


def test_another_process_measures() -> None:
    found = process_memory.memory_of(RUN)
    assert found.is_alone
    assert found.loaded_bytes > 100 * MIB
    assert 0 <= found.peak_bytes < 100 * MIB
    work = replace(RUN, frames=5)
    here = process_memory.measure_here(work, is_alone=False)
    assert here.result_bytes == 5 * found.result_bytes == 5 * 3 * 32 * 16 * 4
    assert here.traffic_bytes > found.traffic_bytes > 0


def test_a_run_survives_the_way_to_another_process() -> None:
    assert type(RUN).read(to_plain(RUN)) == RUN


def test_a_packed_program_measures_in_its_own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: pytest.fail("no process"))
    assert not process_memory.memory_of(RUN).is_alone


def test_a_process_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = SimpleNamespace(returncode=1, stdout="", stderr="Traceback\nMemoryError: full\n")
    monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: failed)
    with pytest.raises(InternalError) as caught:
        process_memory.memory_of(RUN)
    assert caught.value.hint == "MemoryError: full"
