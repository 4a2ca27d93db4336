"""What is compared before a machine gets its first span."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine import __version__
from engine.farm import fit
from engine.farm.fit import LentDevice, MachineOffer, NeededFile, Requirements
from tests.engine.workers.test_hand_out import planned

SHA = "5" * 64
NEEDS = Requirements(
    version=__version__,
    device="cpu",
    bytes=10**9,
    files=(NeededFile(name="model.safetensors", published="", sha256=SHA),),
)
OFFER = MachineOffer(
    version=__version__, device=LentDevice(gpu="", title="EPYC", free_bytes=2 * 10**9), files=(SHA,)
)
GPU = LentDevice(gpu="RTX 5070", title="RTX 5070, 12 GB", free_bytes=2 * 10**9)


def test_a_machine_that_has_all_fits() -> None:
    assert fit.misfit(NEEDS, OFFER) is None
    assert fit.misfit(replace(NEEDS, device="cuda"), replace(OFFER, device=GPU)) is None


@pytest.mark.parametrize(
    ("offer", "why"),
    [
        (replace(OFFER, version="0.0.1"), "it has Upreel 0.0.1, this computer has"),
        (replace(OFFER, device=GPU), "another type of device"),
        (replace(OFFER, files=("",)), "the model file model.safetensors is not installed on it"),
        (replace(OFFER, files=("6" * 64,)), "its model file model.safetensors is different"),
        (replace(OFFER, device=replace(OFFER.device, free_bytes=10**8)), "EPYC has"),
    ],
)
def test_a_machine_that_lacks_something_learns_what(offer: MachineOffer, why: str) -> None:
    assert why in str(fit.misfit(NEEDS, offer))


def test_a_plan_is_carried_out_with_the_files_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned("swiftvr", tmp_path)
    needs, there = fit.requirements_of(plan), tmp_path / "there"
    assert len(needs.files) == 3
    monkeypatch.setenv("UPREEL_MODELS", str(there))
    assert fit.own_files(needs) == (None,) * 3
    there.mkdir()
    for file in plan.work.weights_files:
        (there / file.path.name).write_bytes(file.path.read_bytes())
    files = fit.own_files(needs)
    offer = fit.offer_of(fit.own_devices()[-1], files)
    assert fit.misfit(needs, offer) is None
    moved = fit.moved(plan, tuple(filter(None, files)), "")
    assert {file.path.parent for file in moved.work.weights_files} == {there}
    assert replace(moved, work=plan.work) == replace(plan, gpu="")
    assert fit.moved(moved, tuple(file.path for file in plan.work.weights_files), "") == plan
