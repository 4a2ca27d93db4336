from __future__ import annotations

import os
import sys

from engine.hardware import devices, features


def test_the_processor_has_a_name_and_threads() -> None:
    assert devices.cpu_name()
    assert 1 <= devices.cpu_threads() <= (os.cpu_count() or 1)


def test_free_memory_is_part_of_all_memory() -> None:
    total, available = devices.ram()
    assert 0 < available <= total


def test_bf16_is_answered_without_torch_on_linux() -> None:
    had_torch = "torch" in sys.modules
    features.cpu_has_bf16.cache_clear()
    assert features.cpu_has_bf16() in (True, False)
    assert had_torch or sys.platform != "linux" or "torch" not in sys.modules
