from __future__ import annotations

import os
import sys

from engine.hardware import devices
from engine.ops.linear.formats import PRODUCTS


def test_the_processor_has_a_name_threads_and_memory() -> None:
    assert devices.cpu_name()
    assert 1 <= devices.cpu_threads() <= (os.cpu_count() or 1)
    total, available = devices.ram()
    assert 0 < available <= total


def test_bfloat16_is_known_without_torch_on_linux() -> None:
    had_torch = "torch" in sys.modules
    devices.cpu_has_bf16.cache_clear()
    assert devices.cpu_has_bf16() in (True, False)
    assert had_torch or sys.platform != "linux" or "torch" not in sys.modules


def test_data_types_that_a_gpu_multiplies() -> None:
    offered = {
        None: set(),
        (6, 1): set(),
        (7, 5): {"int8"},  # RTX 20
        (8, 6): {"int8"},  # RTX 30
        (8, 9): {"int8", "fp8"},  # RTX 40
        (12, 0): {"int8", "fp8", "nvfp4"},  # RTX 50
    }
    for capability, names in offered.items():
        assert set(devices.matmul_dtypes(capability)) == names
    assert set(devices.matmul_dtypes((99, 0))) == set(PRODUCTS)
