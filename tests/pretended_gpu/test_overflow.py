"""Values that become too large in one part of SeedVR2: whole jobs on the pretended GPU."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from engine.core.errors import NumericOverflow
from engine.hardware.gpu_table import named
from engine.protocol.events import PlanDowngraded
from engine.protocol.plan import Plan
from tests.helpers import jobs
from tests.helpers.jobs import SmallJob, small_job
from tests.helpers.seedvr2 import SeedVr2Files, write_seedvr2
from tests.pretended_gpu.machine import pretended_gpu
from tests.pretended_gpu.test_jobs import SWITCHES, exact

pytestmark = [
    pytest.mark.pretended_gpu,
    pytest.mark.usefixtures("figures_of_published_vaes"),
]


TURING, AMPERE = "RTX 2060", "RTX 3060"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """Weights that make values of one part larger than float16 holds; a norm follows later.

    Attributes:
        file: Field of the plan.
        names: Endings of tensors' names.
        factor: They are multiplied by it.
    """

    file: str
    names: tuple[str, ...]
    factor: float


PARTS = {
    "encoder": Planted(file="vae", names=("encoder.conv_in.weight",), factor=1e5),
    "transformer": Planted(file="dit", names=("proj_qkv.vid.weight",), factor=5e4),
    "decoder": Planted(file="vae", names=("decoder.conv_in.weight",), factor=1e5),
}


def planted_job(planted: Planted, folder: Path, monkeypatch: pytest.MonkeyPatch) -> SmallJob:
    """A small job whose model has such weights."""

    def written(place: Path) -> SeedVr2Files:
        files = write_seedvr2(place)
        path = getattr(files, planted.file)
        with safe_open(path, "pt") as file:
            metadata = file.metadata()
        tensors = load_file(path)
        found = [name for name in tensors if name.endswith(planted.names)]
        assert found, list(tensors)
        for name in found:
            tensors[name] *= planted.factor
            is_finite = bool(tensors[name].half().isfinite().all())
            assert is_finite or isnan(planted.factor), "the weights themselves fit"
        save_file(tensors, path, metadata)
        return files

    monkeypatch.setattr(jobs, "write_seedvr2", written)
    return small_job("seedvr2", folder, (1, 1, 1))


def on_gpu(plan: Plan, card: str) -> Plan:
    """The plan in half precision for a GPU of the table."""
    gpu = named(card)
    work: Any = replace(
        exact(plan.work),
        device="cuda",
        dtype="float16" if gpu.capability < (8, 0) else "bfloat16",
        vae_dtype="float16",
        switches=SWITCHES,
    )
    sizes = {"device_budget_bytes": 2**33, "device_limit_bytes": 2**33}
    return replace(plan, work=work, card=gpu.title, **sizes)


def run(job: SmallJob, card: str) -> tuple[list[Any], list[np.ndarray]]:
    """The plans that a job went on with, and its pictures."""
    with pretended_gpu(capability=named(card).capability) as gpu:
        outcome = job.run()
    assert not gpu.record.problems
    changes = outcome.of(PlanDowngraded)
    assert {change.why for change in changes} <= {"overflow"}
    return [change.plan.work for change in changes], outcome.pictures


def difference(pictures: list[np.ndarray], wanted: list[np.ndarray]) -> int:
    pairs = zip(pictures, wanted, strict=True)
    return max(int(np.abs(a.astype(int) - b.astype(int)).max()) for a, b in pairs)


@pytest.mark.parametrize("part", PARTS)
def test_the_part_that_overflowed_is_widened(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = planted_job(PARTS[part], tmp_path, monkeypatch)
    wanted = job.right(exact(job.plan.work))
    job.plan = on_gpu(job.plan, TURING)
    works, pictures = run(job, TURING)
    if part == "transformer":
        sums = works.pop(0)
        assert (sums.dtype, sums.switches.dit.fp16_sums) == ("float16", False)
    dtypes = [(one.dtype, one.vae_dtype) for one in works]
    assert dtypes == [("float32", "float16") if part == "transformer" else ("float16", "float32")]
    assert difference(pictures, wanted) <= 3


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_bfloat16_is_next_where_the_gpu_has_it(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = planted_job(PARTS[part], tmp_path, monkeypatch)
    wanted = job.right(exact(job.plan.work))
    job.plan = on_gpu(job.plan, AMPERE)
    works, pictures = run(job, AMPERE)
    assert [(one.dtype, one.vae_dtype) for one in works] == [("bfloat16", "bfloat16")]
    assert difference(pictures, wanted) <= 30


def test_a_transformer_that_is_too_large_for_every_type_names_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = planted_job(replace(PARTS["transformer"], factor=nan), tmp_path, monkeypatch)
    job.plan = on_gpu(job.plan, TURING)
    with pytest.raises(NumericOverflow) as caught:
        run(job, TURING)
    assert caught.value.message == "The values of the transformer became too large for float32."
