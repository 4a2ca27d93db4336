from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from functools import partial

import pytest

from engine.settings.optimisations import (
    DIT_OPTIMISATIONS,
    VAE_OPTIMISATIONS,
    DitSwitches,
    VaeSwitches,
    find,
    switch_names,
)

find_vae = partial(find, table=VAE_OPTIMISATIONS)
MODELS = pytest.mark.parametrize("model", [VaeSwitches, DitSwitches])
Model = type[VaeSwitches] | type[DitSwitches]


@MODELS
def test_every_switch_has_a_line_with_the_same_default(model: Model) -> None:
    switches = [field.name for field in fields(model) if isinstance(field.default, bool)]
    assert [entry.name for entry in model.TABLE] == switches
    defaults = model()
    assert all(entry.default is getattr(defaults, entry.name) for entry in model.TABLE)


@MODELS
def test_what_changes_results_is_off_unless_asked_for(model: Model) -> None:
    assert all(entry.exactness == "exact" for entry in model.TABLE if entry.default)


@MODELS
def test_lines_are_for_people(model: Model) -> None:
    assert len({entry.title for entry in model.TABLE}) == len(model.TABLE)
    for entry in model.TABLE:
        assert entry.devices
        assert entry.does.endswith(".")
        assert entry.capability is None or entry.devices == ("cuda",)


def test_names_are_there_once() -> None:
    names = switch_names()
    assert len(set(names)) == len(names)
    assert set(names) == {entry.name for entry in (*VAE_OPTIMISATIONS, *DIT_OPTIMISATIONS)}


@pytest.mark.parametrize(
    ("model", "name", "choice"),
    [(VaeSwitches, "in_place", "convolution"), (DitSwitches, "token_chunks", "attention")],
)
def test_all_off_and_one_at_a_time(model: Model, name: str, choice: str) -> None:
    off = model.all_off()
    assert off.names_on() == ()
    assert getattr(off, choice) == "auto"
    assert off.changed(name, True).names_on() == (name,)
    assert name not in model().changed(name, False).names_on()


def test_a_model_knows_its_own_switches() -> None:
    assert VaeSwitches.known(("token_chunks", "kernels", "in_place")) == ("kernels", "in_place")
    assert DitSwitches.known(("token_chunks", "attention")) == ("token_chunks",)


def test_where_an_optimisation_works() -> None:
    assert find_vae("in_place").works_on("cpu")
    assert find_vae("in_place").works_on("cuda", (6, 1))
    assert not find_vae("kernels").works_on("cpu")
    assert not find_vae("kernels").works_on("cuda", (7, 0))
    assert find_vae("kernels").works_on("cuda", (12, 0))
    assert not find_vae("kernels").works_on("cuda")
    assert find_vae("cuda_graph").works_on("cuda")


@pytest.mark.parametrize("name", ["fly", "convolution", "attention"])
def test_an_unknown_name_is_a_mistake_of_the_caller(name: str) -> None:
    with pytest.raises(KeyError):
        find_vae(name)
    for switches in (VaeSwitches(), DitSwitches()):
        with pytest.raises(KeyError):
            switches.changed(name, True)


def test_the_table_loads_without_torch() -> None:
    code = "import sys, engine.settings.optimisations; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
