"""Gradient checkpointing saves what docs/fine-tuning.md says, at the published size."""

from __future__ import annotations

import pytest

from engine.models.wan.vae.config import WAN21
from tests.pretended_gpu.training import step_memory

pytestmark = pytest.mark.pretended_gpu


@pytest.mark.extended
def test_checkpointing_takes_at_least_forty_per_cent_off_the_peak() -> None:
    without, with_it = (step_memory(WAN21, 5, 256, has_checkpoints=one) for one in (False, True))
    assert without.kept == with_it.kept
    assert with_it.peak < 0.6 * without.peak
    assert with_it.reserved < 0.75 * without.reserved
