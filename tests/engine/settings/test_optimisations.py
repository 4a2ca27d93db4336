"""The table of optimisations: what its fields state, and the sets of switches made from them."""

import pytest

from engine.settings.optimisations import (
    ALL,
    EXACT,
    GROUPS,
    DitSwitches,
    VaeSwitches,
    choices,
    model_switch_names,
)
from engine.settings.schema import JobSettings, about


def test_choices_have_their_values_and_agree_with_the_settings_they_are() -> None:
    for entry in choices():
        assert entry.default in entry.values, entry.key
        assert entry.plain in ("", *entry.values), entry.key
        if entry.setting:
            assert about(entry.setting).choices == entry.values
            assert getattr(JobSettings(), entry.setting) == entry.default
        else:
            assert getattr(GROUPS[entry.group](), entry.name) == entry.default


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
    groups = (*VaeSwitches.optimisations(), *DitSwitches.optimisations())
    assert sorted(model_switch_names()) == sorted({entry.name for entry in groups})


def test_an_unknown_name_is_an_error_of_the_caller() -> None:
    for name in ("fly", "convolution", "attention"):
        with pytest.raises(KeyError):
            VaeSwitches.find(name)
        with pytest.raises(KeyError):
            DitSwitches().changed(name, True)
