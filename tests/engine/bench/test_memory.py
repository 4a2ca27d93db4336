import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.bench import memory
from engine.bench.memory import MemoryTraffic, main_memory_row, peak_bytes, traced
from engine.bench.run import BenchOptions
from engine.bench.workload import dit_run, vae_run
from engine.core.errors import InternalError, OutputUnwritable
from engine.core.geometry import Size
from tests.helpers.seedvr2 import tiny_config, tiny_dit_config

MIB = 2**20
OPTIONS = BenchOptions(
    config=tiny_config(), dit=tiny_dit_config(), size=Size(32, 16), device="cpu", threads=1
)
RUN = vae_run(OPTIONS, "decode")


@pytest.mark.parametrize("is_counted", [True, False])  # False: as on another system than Linux
def test_a_peak_is_found_after_it_and_an_earlier_one_is_not(
    is_counted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_counted:
        monkeypatch.setattr(memory, "_reset_peak", lambda: False)
    early = np.ones(128 * MIB, dtype=np.uint8)
    del early
    with memory.PeakMemory() as peak:
        block = np.ones(64 * MIB, dtype=np.uint8)
        end = time.monotonic() + 0.5 * (not is_counted)
        while time.monotonic() < end:
            time.sleep(0.01)  # so that the thread gets to sample on a busy machine
        del block
    assert 60 * MIB < peak.above < 100 * MIB
    assert peak.before > 10 * MIB


def test_traffic_counts_what_is_read_and_written() -> None:
    x = torch.zeros(1000)  # 4000 bytes
    with MemoryTraffic() as traffic:
        y = x.view(10, 100)[2:]
        z = y + 1  # reads 3200, writes 3200
        z.add_(z)  # reads twice, writes once
    assert traffic.bytes == 2 * 3200 + 3 * 3200


@pytest.mark.extended
def test_another_process_measures() -> None:
    found = memory.memory_of(RUN)
    assert found.is_alone
    assert found.loaded_bytes > 100 * MIB
    assert 0 <= found.peak_bytes < 100 * MIB
    work = replace(RUN, frames=5)
    here = memory.measure_here(work, is_alone=False)
    assert here.result_bytes == 5 * found.result_bytes == 5 * 3 * 32 * 16 * 4
    assert here.traffic_bytes > found.traffic_bytes > 0


def test_a_packaged_program_measures_in_its_own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise MemoryError("full")

    monkeypatch.setattr(memory, "ProcessPoolExecutor", failing)
    with pytest.raises(InternalError) as caught:
        memory.memory_of(RUN)
    assert caught.value.hint == "MemoryError: full", "a failed process states why"
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    row = main_memory_row(dit_run(OPTIONS, "3b"))
    assert list(row) == ["loaded_mib", "peak_mib", "traffic_mib", "note"]
    assert "other tasks" in str(row["note"])


_MIB = 2**20


def test_the_peak_is_what_tensors_take_at_once() -> None:
    def work() -> torch.Tensor:
        first = torch.zeros(4 * _MIB, dtype=torch.uint8)
        second = first + 1  # 8 MiB at once
        del first
        return second + 1  # still 8

    for _ in range(2):
        assert peak_bytes(work, "cpu") == pytest.approx(8 * _MIB, rel=1e-4)
    kept = [torch.zeros(_MIB)]  # does not count
    assert peak_bytes(lambda: kept.clear() or torch.zeros(1024), "cpu") < _MIB
    assert peak_bytes(lambda: kept.append(torch.zeros(_MIB)), "cpu") == 4 * _MIB
    assert peak_bytes(lambda: kept.clear() or torch.zeros(_MIB), "cpu") == 4 * _MIB  # nor does it


@pytest.mark.gpu
def test_the_peak_of_a_gpu() -> None:
    found = peak_bytes(lambda: torch.zeros(8 * _MIB, dtype=torch.uint8, device="cuda") + 1, "cuda")
    assert found == 16 * _MIB


def test_a_trace_has_the_operators_and_no_file_names(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    with traced(path):
        torch.ones(8, 8) @ torch.ones(8, 8)
    text = path.read_text(encoding="utf-8")
    names = {event.get("name") for event in json.loads(text)["traceEvents"]}
    assert "aten::mm" in names
    assert str(tmp_path) not in text
    assert str(Path.home()) + "/" not in text
    with pytest.raises(OutputUnwritable), traced(tmp_path / "none" / "trace.json"):
        pytest.fail("an unwritable file is reported before anything runs")
