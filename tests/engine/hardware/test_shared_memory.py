import ctypes
import os
import sys
from typing import Any

import pytest

from engine.hardware import shared_memory
from engine.hardware.shared_memory import CounterReader, Counters, MemoryUse, luid_text

MIB = 2**20
GPU, INSIDE = "luid_0x00000000_0x0000d1b2", "luid_0x00000000_0x00009a01"
ME = os.getpid()
PROCESS, ADAPTER = r"\GPU Process Memory(*)", r"\GPU Adapter Memory(*)"


class FakePdh:
    """Answers as `pdh.dll` does: names after the items in one buffer, its size by a first call."""

    def __init__(self, values: dict[str, list[tuple[str, int]]]) -> None:
        self.values = values
        self.paths: list[str] = []
        self.fails: dict[str, int] = {}
        self.collected = 0
        self.open = 0
        self._kept: list[Any] = []

    def PdhOpenQueryW(self, source: Any, user: Any, query: Any) -> int:
        self.open += 1
        query._obj.value = 77
        return self.fails.get("PdhOpenQueryW", 0)

    def PdhAddEnglishCounterW(self, query: Any, path: str, user: Any, counter: Any) -> int:
        assert query.value == 77
        self.paths.append(path)
        counter._obj.value = len(self.paths)
        return self.fails.get("PdhAddEnglishCounterW", 0)

    def PdhCollectQueryData(self, query: Any) -> int:
        self.collected += 1
        return self.fails.get("PdhCollectQueryData", 0)

    def PdhGetFormattedCounterArrayW(
        self, counter: Any, form: int, size: Any, count: Any, buffer: Any
    ) -> int:
        assert form == 0x400
        items = self.values.get(self.paths[counter.value - 1], [])
        needed = ctypes.sizeof(shared_memory._CounterItem) * len(items) + 64
        if not items:
            return 0
        if buffer is None:
            size._obj.value = needed
            return 0x800007D2 - 2**32  # as a signed number, as ctypes gives it
        assert size._obj.value == needed
        array = (shared_memory._CounterItem * len(items))()
        for place, (name, value) in zip(array, items, strict=True):
            place.name, place.value = name, abs(value)
            place.status = 0 if value >= 0 else 0xC0000BC6  # gone since
        self._kept.append(array)  # the names
        ctypes.memmove(buffer, array, ctypes.sizeof(array))
        count._obj.value = len(items)
        return 0

    def PdhCloseQuery(self, query: Any) -> int:
        self.open -= 1
        return 0


def machine() -> FakePdh:
    """Our process and a browser on a GPU, and a little on the graphics of the processor."""
    mine, browser = f"pid_{ME}_{GPU}_phys_0", f"pid_4000_{GPU.upper()}_phys_0"
    gone, inside = f"pid_999_{GPU}_phys_0", f"pid_{ME}_{INSIDE}_phys_0"
    whole, other = f"{GPU}_phys_0", f"{INSIDE}_phys_0"
    shared = [(mine, 500 * MIB), (browser, 10 * MIB), (inside, 80 * MIB), (gone, -5)]
    return FakePdh(
        {
            rf"{PROCESS}\Dedicated Usage": [(mine, 6000 * MIB), (browser, 2100 * MIB)],
            rf"{PROCESS}\Shared Usage": shared,
            rf"{ADAPTER}\Dedicated Usage": [(whole, 8200 * MIB), (other, 300 * MIB)],
            rf"{ADAPTER}\Shared Usage": [(whole, 520 * MIB)],
        }
    )


@pytest.fixture
def on_windows(monkeypatch: pytest.MonkeyPatch) -> FakePdh:
    fake = machine()
    monkeypatch.setattr(shared_memory, "_opened", [])
    monkeypatch.setattr(shared_memory, "_pdh", lambda: fake)
    monkeypatch.setattr(shared_memory, "_luid", lambda: GPU)
    return fake


def test_own_bytes_are_those_on_the_gpu_in_use(
    on_windows: FakePdh, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shared_memory.own_bytes() == 500 * MIB
    assert on_windows.open == 1
    monkeypatch.setattr(shared_memory, "_luid", lambda: None)  # before CUDA is used
    assert shared_memory.own_bytes() == 0


def test_every_program_has_its_share(on_windows: FakePdh, monkeypatch: pytest.MonkeyPatch) -> None:
    found = shared_memory.adapter(used_bytes=0)
    assert found is not None
    assert found.all == MemoryUse(8200 * MIB, 520 * MIB)
    assert found.processes == {
        ME: MemoryUse(6000 * MIB, 500 * MIB),
        4000: MemoryUse(2100 * MIB, 10 * MIB),
    }
    monkeypatch.setattr(shared_memory, "_luid", lambda: "")  # not named by CUDA: by used memory
    for used, dedicated in ((8000 * MIB, 8200 * MIB), (0, 300 * MIB)):
        found = shared_memory.adapter(used)
        assert found is not None
        assert found.all.dedicated == dedicated


def test_the_query_is_opened_once_and_read_a_few_times_per_second() -> None:
    fake, now = machine(), [0.0]
    reader = CounterReader(Counters(fake, shared_memory._PATHS), clock=lambda: now[0])
    for now[0] in (0.0, 0.1, 0.19, 0.3):
        assert 4000 in reader.adapters()[GPU].processes
    assert (fake.open, fake.collected) == (1, 2)
    fake.values, now[0] = {}, 1.0  # all programs have ended
    assert reader.adapters() == {}


@pytest.mark.parametrize("failing", ["Collect", "Open", "Add"])
def test_a_failed_reading_is_none(on_windows: FakePdh, failing: str) -> None:
    names = {"Collect": "QueryData", "Open": "QueryW", "Add": "EnglishCounterW"}
    on_windows.fails[f"Pdh{failing}{names[failing]}"] = 0xC0000BB8 - 2**32
    assert shared_memory.own_bytes() is None
    assert shared_memory.adapter(0) is None
    assert on_windows.open <= 1  # not tried again


def test_no_query_stays_open() -> None:
    fake = machine()
    counters = Counters(fake, ["x"])
    counters.close()
    counters.close()
    assert fake.open == 0
    fake.fails["PdhAddEnglishCounterW"] = 1
    with pytest.raises(OSError, match="PdhAddEnglishCounterW"):
        Counters(fake, ["x"])
    assert fake.open == 0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows counts")
def test_elsewhere_nothing_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_memory, "_opened", [])
    assert shared_memory.own_bytes() is None
    assert shared_memory.adapter(0) is None
    assert luid_text(bytes.fromhex("b2d1000000000000")) == GPU
