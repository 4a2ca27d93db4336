from typing import Any

import pytest
import torch

from engine.bench.cases import claims, switches
from engine.bench.cases.claims import claim_rows
from engine.bench.cases.switch_models import MeasuredModel, MeasuredVae
from engine.bench.cases.switches import SwitchComparison
from engine.bench.options import BenchOptions
from engine.bench.report.claims import claims as known_claims
from engine.bench.report.switch_table import measured
from engine.bench.run import CASES, GROUPS
from engine.core.geometry import Size
from engine.core.messages import message
from tests.helpers.memory import BFLOAT16
from tests.helpers.seedvr2 import tiny_config, tiny_dit_config

OPTIONS = BenchOptions(
    config=tiny_config(),
    dit=tiny_dit_config(),
    size=Size(16, 16),
    frames=(9,),
    quick=True,
    device="cpu",
    runs=2,
    threads=1,
)


@pytest.fixture(scope="module")
def rows() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engine.hardware.devices.cpu_has_bf16", lambda: True)
        return {row["switch"]: row for row in claim_rows(OPTIONS)}


@BFLOAT16
@pytest.mark.extended
def test_a_vae_in_bfloat16_takes_less_memory(rows: dict[str, Any]) -> None:
    assert rows["vae.precision=bfloat16"]["memory"] < 1


def test_what_documents_claim_besides_switches_has_lines(rows: dict[str, Any]) -> None:
    assert len(measured(rows.values())) == len(rows)
    assert rows["vae.precision=float16"]["note"] == message("bench.needs-gpu")
    half = rows["vae.precision=bfloat16"]
    assert half["error"] > 1e-3 > 1e-5 > half["error_without"]
    for name in ("vae.pixel_shuffle", "plan.separable_blending"):
        assert rows[name]["time"] > 0
        assert rows[name]["error"] < 1e-6
    assert rows["plan.separable_blending"]["memory"] < 1  # no weight of every pixel
    assert rows["plan.cached_ramps"]["time"] > 0


def test_runs_that_differ_in_memory_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _repeated()["memory"] == 1.0
    peaks = iter([100, 100, 100, 100, 150])
    monkeypatch.setattr(claims, "peak_bytes", lambda work, device: next(peaks))
    row = _repeated()
    assert row["memory"] == 1.5
    assert "deviation 18.18%" in str(row["note"])


def _repeated() -> dict[str, Any]:
    with torch.inference_mode():
        return claims._repeated(MeasuredVae(OPTIONS), OPTIONS)


@pytest.mark.extended
def test_every_claim_is_answered_by_a_row_of_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SwitchComparison, "_compare", lambda *given, **more: {})
    monkeypatch.setattr(MeasuredModel, "error", lambda *given: 0.0)
    for module in (claims, switches):
        monkeypatch.setattr(module, "ratios", lambda *given: {})
    with torch.inference_mode():
        cases = [CASES[name] for name in GROUPS["optimisations"]]
        found = {row["switch"] for case in cases for row in case.rows(OPTIONS)}
    wanted = {row for claim in known_claims().values() for row in claim.rows}
    assert wanted <= found
