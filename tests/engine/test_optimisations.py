from __future__ import annotations

import subprocess
import sys

import pytest

from engine.optimisations import OPTIMISATIONS, VaeSwitches, find, switch_names


def test_every_switch_has_a_line_with_the_same_default() -> None:
    assert tuple(entry.name for entry in OPTIMISATIONS) == switch_names()
    defaults = VaeSwitches()
    assert all(entry.default is getattr(defaults, entry.name) for entry in OPTIMISATIONS)


def test_what_changes_results_is_off_unless_asked_for() -> None:
    assert all(entry.exactness == "exact" for entry in OPTIMISATIONS if entry.default)


def test_lines_are_for_people() -> None:
    assert len({entry.title for entry in OPTIMISATIONS}) == len(OPTIMISATIONS)
    for entry in OPTIMISATIONS:
        assert entry.devices
        assert entry.does.endswith(".")
        assert entry.capability is None or entry.devices == ("cuda",)


def test_all_off_and_one_at_a_time() -> None:
    off = VaeSwitches.all_off()
    assert off.names_on() == ()
    assert off.convolution == "auto"
    assert off.changed("in_place", True).names_on() == ("in_place",)
    assert "in_place" not in VaeSwitches().changed("in_place", False).names_on()


def test_where_an_optimisation_works() -> None:
    assert find("in_place").works_on("cpu")
    assert find("in_place").works_on("cuda", (6, 1))
    assert not find("kernels").works_on("cpu")
    assert not find("kernels").works_on("cuda", (7, 0))
    assert find("kernels").works_on("cuda", (12, 0))
    assert not find("kernels").works_on("cuda")
    assert find("cuda_graph").works_on("cuda")


@pytest.mark.parametrize("name", ["fly", "convolution"])
def test_an_unknown_name_is_a_mistake_of_the_caller(name: str) -> None:
    with pytest.raises(KeyError):
        find(name)
    with pytest.raises(KeyError):
        VaeSwitches().changed(name, True)


def test_the_table_loads_without_torch() -> None:
    code = "import sys, engine.optimisations; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
