"""The table of optimisations: what its fields state, and the sets of switches made from them."""

import subprocess
import sys

import pytest

from engine.settings.optimisations import (
    ALL,
    EXACT,
    GROUPS,
    DitSwitches,
    VaeSwitches,
    choices,
    model_switch_names,
    optimisations,
)
from engine.settings.schema import JobSettings, about

ENTRIES = (*optimisations(), *choices())


def test_names_in_settings_and_environment_are_unique() -> None:
    assert len({entry.key for entry in ENTRIES}) == len(ENTRIES)
    assert len({entry.variable for entry in ENTRIES}) == len(ENTRIES)
    assert all(entry.key.partition(".")[0] == entry.group for entry in ENTRIES)


def test_what_changes_results_is_off_by_default() -> None:
    assert all(entry.exactness == "exact" for entry in optimisations() if entry.default)


def test_entries_name_their_devices() -> None:
    for entry in ENTRIES:
        assert entry.devices, entry.key
        assert entry.capability is None or entry.devices == ("cuda",), entry.key


def test_choices_have_their_values_and_agree_with_the_settings_they_are() -> None:
    for entry in choices():
        assert entry.default in entry.values, entry.key
        assert entry.plain in ("", *entry.values), entry.key
        if entry.setting:
            assert about(entry.setting).choices == entry.values
            assert getattr(JobSettings(), entry.setting) == entry.default
        else:
            assert getattr(GROUPS[entry.group](), entry.name) == entry.default


def test_names_for_the_benchmark_are_unique() -> None:
    names = model_switch_names()
    assert len(set(names)) == len(names)
    both = (*VaeSwitches.optimisations(), *DitSwitches.optimisations())
    assert set(names) == {entry.name for entry in both}


def test_all_off_one_alone_and_all() -> None:
    for group, name in ((VaeSwitches, "in_place"), (DitSwitches, "token_chunks")):
        assert group.all_off().names_on() == ()
        assert group.only(EXACT) == group.all_off()
        assert group.only(name).names_on() == (name,)
        assert name not in group().changed(name, False).names_on()
        assert group().changed(ALL, False) == group.all_off()
        assert len(group.only(ALL).names_on()) == len(group.optimisations())
    assert VaeSwitches.all_off().convolution == DitSwitches.all_off().attention == "auto"


def test_a_group_knows_its_own_names_with_and_without_prefix() -> None:
    names = ("token_chunks", "kernels", "vae.in_place", "dit.all", "all", "exact", "fly")
    assert VaeSwitches.known(names) == ("kernels", "in_place", "all", "exact")
    assert DitSwitches.known(names) == ("token_chunks", "kernels", "all", "all", "exact")


def test_where_an_optimisation_works() -> None:
    find = VaeSwitches.find
    assert find("in_place").works_on("cpu")
    assert find("in_place").works_on("cuda", (6, 1))
    assert not find("kernels").works_on("cpu")
    assert not find("kernels").works_on("cuda", (7, 0))
    assert find("kernels").works_on("cuda", (12, 0))
    assert not find("kernels").works_on("cuda")
    assert find("cuda_graph").works_on("cuda")


def test_an_unknown_name_is_an_error_of_the_caller() -> None:
    for name in ("fly", "convolution", "attention"):
        with pytest.raises(KeyError):
            VaeSwitches.find(name)
        with pytest.raises(KeyError):
            DitSwitches().changed(name, True)


def test_the_table_loads_without_torch() -> None:
    code = "import sys, engine.settings.optimisations; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
