"""Tests marked `gpu` on the pretended GPU: `pytest -p tests.pretended_gpu.plugin -m gpu`.

Those marked `real_gpu` too are skipped: what they look at cannot be pretended.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.pretended_gpu.machine import pretended_gpu


@pytest.fixture(autouse=True)
def _pretended_gpu(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.node.get_closest_marker("gpu") is None:
        yield
        return
    real = request.node.get_closest_marker("real_gpu")
    if real is not None:
        pytest.skip(f"not on a pretended GPU: {real.args[0]}")
    with pretended_gpu() as gpu:
        yield
    assert not gpu.record.problems
