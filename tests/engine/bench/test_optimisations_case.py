from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from engine.bench import optimisations_case
from engine.bench.optimisations_case import dit_optimisation_rows, optimisation_rows
from engine.bench.options import BenchOptions
from engine.geometry import Size
from engine.optimisations import VAE_OPTIMISATIONS, DitSwitches, VaeSwitches
from tests.helpers.tiny import tiny_config
from tests.helpers.tiny_dit import tiny_dit_config
from tests.helpers.tiny_wan import tiny_wan_config

OPTIONS = BenchOptions(
    config=tiny_config(), size=Size(16, 16), frames=(5, 1), quick=True, device="cpu"
)
WAN = replace(OPTIONS, model="wan21-vae", config=tiny_wan_config())


@pytest.mark.parametrize("options", [OPTIONS, WAN], ids=["seedvr2", "wan"])
def test_every_switch_has_a_line(options: BenchOptions) -> None:
    rows = {row["switch"]: row for row in optimisation_rows(options)}
    names = [entry.name for entry in VAE_OPTIMISATIONS]
    assert list(rows) == ["(defaults)", "(all off)", *names, "convolution 2d", "convolution 3d"]
    for entry in VAE_OPTIMISATIONS:
        row = rows[entry.name]
        assert row["exactness"] == entry.exactness
        if "cpu" in entry.devices:
            assert all(row[f"of_{side}_{n}"] > 0 for side in ("decode", "encode") for n in (5, 1))
            assert 0 < row["error"] < 1e-4
        else:
            assert row["note"] == "not on this processor"


def test_ratios_are_with_by_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build with `in_place` takes 1 s and one without it 4 s; winograd makes 1 s of it 0.5 s."""

    class Watch:
        def __init__(self, work: object) -> None:
            self.seconds, self.result = work, torch.ones(1)

        def run(self, device: str, *, warm_ups: int) -> None:
            pass

    def works(lab: object, run: optimisations_case.VaeRun) -> Any:
        slow = 1.0 if run.switches.in_place else 4.0
        return {("decode", 1): slow * (0.5 if run.switches.temporal_winograd else 1.0)}

    lab = optimisations_case._Lab(OPTIONS)
    monkeypatch.setattr(optimisations_case, "_Watch", Watch)
    monkeypatch.setattr(optimisations_case._Lab, "_works", works)
    lab._pairs, lab._usual = [("decode", 1)], works(lab, lab._base)
    lab._truth = {("decode", 1): torch.ones(1)}
    without = lab.compare(VaeSwitches().changed("in_place", False), added=False)
    assert without == {"of_decode_1": 0.25, "error": 0.0}
    added = lab.compare(VaeSwitches().changed("temporal_winograd", True), added=True)
    assert added == {"of_decode_1": 0.5, "error": 0.0}


def test_every_switch_of_the_transformer_has_a_line() -> None:
    options = replace(OPTIONS, dit=tiny_dit_config(), size=Size(96, 64))
    rows = {row["switch"]: row for row in dit_optimisation_rows(options)}
    names = [entry.name for entry in DitSwitches.TABLE]
    assert list(rows) == ["(defaults)", "(all off)", *names]
    for entry in DitSwitches.TABLE:
        row = rows[entry.name]
        assert row["exactness"] == entry.exactness
        if "cpu" in entry.devices:
            assert row["of_forward_5"] > 0
            assert 0 <= row["error"] < 1e-4
        else:
            assert row["note"] == "not on this processor"
