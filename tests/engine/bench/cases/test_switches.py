from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from engine.bench.cases.machine_flags import around_rows
from engine.bench.cases.optimisations import Lab, dit_optimisation_rows, optimisation_rows
from engine.bench.timing.paired_timing import Ratio, ratio_of

from engine.bench.cases import optimisations
from engine.bench.cases.switch_models import (
    Built,
    RunSubject,
    Subject,
    VaeSubject,
    narrower,
)
from engine.bench.options import BenchOptions
from engine.core.errors import FeatureMissing
from engine.core.geometry import Size
from engine.models.seedvr2.vae.config import VAE
from engine.models.wan.vae.config import WAN22
from engine.ops import torch_flags
from engine.ops.transfer.tile_canvas import TileSink
from engine.settings.optimisations import DitSwitches, RunSwitches, VaeSwitches
from tests.helpers.tiny import tiny_config
from tests.helpers.tiny_dit import tiny_dit_config
from tests.helpers.tiny_wan import tiny_wan_config

OPTIONS = BenchOptions(
    config=tiny_config(), size=Size(16, 16), frames=(9,), quick=True, device="cpu", runs=2
)
WAN = replace(OPTIONS, model="wan21-vae", config=tiny_wan_config())


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("options", [OPTIONS, WAN], ids=["seedvr2", "wan"])
def test_every_switch_of_the_vae_has_a_line(options: BenchOptions) -> None:
    rows = {row["switch"]: row for row in optimisation_rows(options)}
    keys = [entry.key for entry in VaeSwitches.optimisations()]
    choices = ["vae.convolution=2d", "vae.convolution=3d"]
    assert list(rows) == ["vae.usual", "vae.all", *keys, *choices]
    for entry in VaeSwitches.optimisations():
        row = rows[entry.key]
        if "cpu" not in entry.devices:
            assert row == {"switch": entry.key, "note": "does nothing on a processor"}
            continue
        assert row["time"] > 0
        assert row["turns"] == 2
        assert 0 < row["error"] < 1e-5
        assert 0 < row["error_without"] < 1e-5
        assert ("memory" in row) != (entry.key == "vae.image_mode")
    winograd = rows["vae.temporal_winograd"]
    assert winograd["error"] != winograd["error_without"]  # it really was on


def test_every_switch_of_the_transformer_has_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(device: torch.device) -> None:
        raise FeatureMissing("torch.compile does not work here.", feature="compile")

    monkeypatch.setattr("engine.bench.cases.switch_models.require_compiler", refuse)
    options = replace(OPTIONS, dit=tiny_dit_config(), size=Size(96, 64), quick=False)
    rows = {row["switch"]: row for row in dit_optimisation_rows(options)}
    keys = [entry.key for entry in DitSwitches.optimisations()]
    assert list(rows)[: 2 + len(keys)] == ["dit.usual", "dit.all", *keys]
    assert {"dit.attention=sdpa", "dit.attention=math"} <= set(rows)
    assert rows.pop("dit.compile")["note"] == "torch.compile does not work here."
    for entry in DitSwitches.optimisations():
        row = rows.get(entry.key)
        if row is not None and "cpu" in entry.devices:
            assert row["time"] > 0
            assert 0 < row["error"] < 1e-5


def test_compiling_takes_too_long_for_a_quick_table() -> None:
    options = replace(OPTIONS, dit=tiny_dit_config(), size=Size(96, 64))
    rows = {row["switch"]: row for row in dit_optimisation_rows(options)}
    assert "--quick" in rows["dit.compile"]["note"]


def test_what_documents_promise_besides_has_lines() -> None:
    options = replace(OPTIONS, dit=tiny_dit_config())
    rows = {row["switch"]: row for row in around_rows(options)}
    assert rows["run.cudnn_benchmark"]["note"] == "needs an NVIDIA card"
    assert "UPREEL_RUN_PASSIVE_THREADS" in rows["run.passive_threads"]["note"]
    assert {entry.key for entry in RunSwitches.optimisations()} < set(rows)
    assert rows["plan.slices"]["memory"] > 0
    assert rows["plan.tiles"]["memory"] < 1
    assert rows["vae.attention"]["error"] < 1e-5
    assert 0.5 < rows["dit.sampling"]["time"] < 1
    assert rows["dit.matmul=fp8"]["error"] > rows["dit.matmul=int8"]["error"] > 1e-3
    assert rows["dit.matmul=nvfp4"]["note"] == "not computed by this card or processor"


def test_two_tiles_leave_under_the_switches_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []
    real = TileSink.add

    def add(self: TileSink, *args: Any) -> None:
        seen.append(torch_flags.current().copy_stream)
        real(self, *args)

    monkeypatch.setattr(TileSink, "add", add)
    subject = RunSubject(OPTIONS)
    assert [row["switch"] for row in Lab(subject, OPTIONS).rows()][:2] == ["run.usual", "run.all"]
    (frames,) = subject.built(subject.usual).clip()
    assert frames.shape == (9, 32, 16, 3)
    assert torch.equal(frames[:, :16], frames[:, 16:])
    seen.clear()
    subject.built(replace(subject.usual, copy_stream=True)).clip()
    subject.built(replace(subject.usual, copy_stream=False)).clip()
    assert seen == [True, True, False, False]


class _Fake(Subject):
    """Takes 4 s without `in_place` and 1 s with it; Winograd makes half of that."""

    name, device, usual = "vae", "cpu", VaeSwitches()

    @property
    def about(self) -> str:
        return "a fake"

    def built(self, switches: VaeSwitches) -> Built:
        seconds = (1.0 if switches.in_place else 4.0) * (0.5 if switches.temporal_winograd else 1.0)

        def work() -> list[torch.Tensor]:
            return [torch.tensor([1.0, seconds])]

        return Built(clip=work, image=work, check=work)

    def _plain(self) -> Built:
        return self.built(VaeSwitches())


def test_ratios_are_with_by_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def compare(work: Any, other: Any, device: str, effort: Any) -> Ratio:
        return ratio_of([float(work()[0][1] / other()[0][1])])

    monkeypatch.setattr(optimisations, "compare", compare)
    monkeypatch.setattr(optimisations, "peak_bytes", lambda work, _: work()[0][1].item())
    rows = {row["switch"]: row for row in Lab(_Fake(), OPTIONS).rows()}
    saved = rows["vae.in_place"]
    assert (saved["time"], saved["memory"], saved["error"]) == (0.25, 0.25, 0.0)
    assert saved["error_without"] == pytest.approx(3 / 2**0.5)
    added = rows["vae.temporal_winograd"]
    assert (added["time"], added["memory"], added["error_without"]) == (0.5, 0.5, 0.0)
    assert rows["vae.upsampler_fold"]["time"] == 1.0
    assert rows["vae.all"]["time"] == 0.25


def test_narrower_models_are_of_the_same_kind() -> None:
    assert narrower(VAE, 4).block_out_channels == (32, 64, 128, 128)
    assert (narrower(WAN22, 2).dim, narrower(WAN22, 2).dec_dim) == (80, 128)
    assert "half" in VaeSubject(BenchOptions(device="cpu")).about


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [optimisation_rows, dit_optimisation_rows, around_rows])
def test_the_same_lines_on_a_card(rows: Any) -> None:
    options = replace(OPTIONS, device="cuda", dit=tiny_dit_config(), size=Size(64, 64))
    found = {row["switch"]: row for row in rows(options)}
    assert not [row for row in found.values() if row.get("note") == "needs an NVIDIA card"]
    for row in found.values():
        if "time" in row:
            assert row["time"] > 0
            assert row.get("memory", 1.0) > 0
