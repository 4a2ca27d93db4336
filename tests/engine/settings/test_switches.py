"""The switches as users reach them: by a text, by environment, and by the defaults of a device."""

import subprocess
import sys
from dataclasses import replace

import pytest

from engine.core.errors import SettingsError
from engine.core.serialization import from_plain, to_plain
from engine.settings.assignments import with_text
from engine.settings.optimisations import (
    ALL,
    EXACT,
    GROUPS,
    DitSwitches,
    RunSwitches,
    VaeSwitches,
    choices,
    model_switch_names,
    optimisations,
)
from engine.settings.schema import ATTENTION, JobSettings, about, with_environment
from engine.settings.switches import (
    Switches,
    changes_of,
    default_switches,
    environment_changes,
    named_changes,
    settings_of,
    switches_of,
    text_of,
)
from tests.helpers.program import ROOT

PLACES = [("cpu", None), ("cuda", (7, 5)), ("cuda", (8, 6)), ("cuda", (12, 0))]
WORD = {True: "on", False: "off"}


def test_defaults_hardly_round_and_all_is_what_works_on_the_device() -> None:
    """No default changes results but for rounding; of one kind there is more of that."""
    for place in PLACES:
        usual, everything = default_switches(*place), switches_of("all=on", *place, {})
        for entry in optimisations():
            if getattr(getattr(usual, entry.group), entry.name):
                exactness = "rounding" if entry.name == "fp16_sums" else "exact"
                assert entry.exactness == exactness
                assert entry.works_on(*place)
            is_on = getattr(getattr(everything, entry.group), entry.name)
            assert is_on == entry.works_on(*place)


def test_defaults_follow_the_device() -> None:
    cpu, volta, turing = (default_switches(*p) for p in (PLACES[0], ("cuda", (7, 0)), PLACES[1]))
    assert (cpu.dit.onednn_matmul, turing.dit.onednn_matmul) == (True, False)
    assert (cpu.vae.kernels, volta.vae.kernels, turing.vae.kernels) == (False, False, True)
    assert (cpu.run.pinned_transfers, turing.run.pinned_transfers) == (False, True)
    assert (cpu.run.passive_threads, turing.run.passive_threads) == (True, True)


def test_each_switch_alone_by_text_and_by_environment() -> None:
    """Nothing else changes, and the text counts more than the environment."""
    for place in PLACES:
        usual = switches_of("", *place, {})
        for entry in optimisations():
            before = bool(getattr(getattr(usual, entry.group), entry.name))
            by_text = switches_of(f"{entry.key}={WORD[not before]}", *place, {})
            assert by_text.changes_from(usual) == {entry.key: not before}
            environ = {entry.variable: WORD[not before]}
            assert switches_of("", *place, environ) == by_text
            assert switches_of(f"{entry.key}={WORD[before]}", *place, environ) == usual


def test_a_group_is_all_of_its_switches() -> None:
    for place in PLACES:
        usual = default_switches(*place)
        found = switches_of("vae.all=off", *place, {})
        assert (found.vae, found.dit, found.run) == (VaeSwitches.all_off(), usual.dit, usual.run)
        assert switches_of("", *place, {"UPREEL_VAE_ALL": "off"}) == found
        none = switches_of("all=off", *place, {})
        assert none == switches_of("vae.all=off,dit.all=off,run.all=off", *place, {})
        assert switches_of("", *place, {"UPREEL_ALL": "off"}) == none
        for group in (none.vae, none.dit, none.run):
            assert group == group.all_off()


def test_the_last_part_counts_and_in_the_environment_a_switch_before_its_group() -> None:
    last = switches_of("vae.all=off,vae.in_place=on", "cpu", None, {})
    assert last.vae == VaeSwitches.only("in_place")
    last = switches_of("vae.in_place=on,vae.all=off", "cpu", None, {})
    assert last.vae == VaeSwitches.all_off()
    environ = {"UPREEL_VAE_IN_PLACE": "on", "UPREEL_VAE_ALL": "off", "UPREEL_ALL": "on"}
    found = switches_of("", "cpu", None, environ)
    assert found.vae == VaeSwitches.only("in_place")
    assert found.dit.folded_modulation


def test_fp4_takes_products_and_attention_together() -> None:
    assert settings_of("fp4", {}) == {"matmul": "nvfp4", "attention": "sage3-fp4"}
    assert settings_of("fp4,dit.attention=sdpa", {})["attention"] == "sdpa"
    assert changes_of("fp4") == {"dit.matmul": "nvfp4", "dit.attention": "sage3-fp4"}
    assert named_changes("fp4", {}) == changes_of("fp4"), "a GPU that cannot refuses it by name"
    assert switches_of("fp4", *PLACES[-1], {}) == default_switches(*PLACES[-1])
    with pytest.raises(SettingsError, match="Unknown switch 'fp4'"):
        changes_of("fp4=on")


def test_exact_computes_as_the_plain_variants_do() -> None:
    for place in PLACES:
        found = switches_of("exact", *place, {})
        assert found.vae == VaeSwitches(**{**to_plain(VaeSwitches.all_off()), "convolution": "3d"})
        assert found.dit == DitSwitches.all_off()
        assert found.run == RunSwitches.only("passive_threads")  # no arithmetic
    assert settings_of("exact", {}) == {"attention": "sdpa"}
    assert with_environment(JobSettings(switches="exact")).attention == "sdpa"
    assert with_environment(JobSettings(switches="exact", attention="math")).attention == "math"
    found = switches_of("exact,vae.in_place=on", "cpu", None, {})
    assert found.vae == replace(VaeSwitches.only("in_place"), convolution="3d")


def test_a_text_comes_back_from_its_changes() -> None:
    text = "vae.temporal_winograd=on,vae.convolution=2d,run.tf32=off"
    assert text_of(changes_of(text)) == text
    assert changes_of(" VAE.in-place = No , ,vae.in_place=on") == {"vae.in_place": True}
    assert changes_of("") == {}


def test_an_unreadable_text_is_refused_with_the_nearest_name() -> None:
    for text, message, hint in (
        ("vae.temporal_vinograd=on", "switch 'vae.temporal_vinograd'", "vae.temporal_winograd"),
        ("dit.fused_step=on", "Unknown switch", "dit.fused_steps"),
        ("vae.in_place", "the form name=value", "vae.temporal_winograd=on"),
        ("vae.in_place=perhaps", "vae.in_place cannot be 'perhaps'", "on, off"),
        ("vae.all=perhaps", "vae.all cannot be 'perhaps'", "on, off"),
        ("vae.convolution=4d", "vae.convolution cannot be '4d'", "auto, 2d, 3d"),
        ("in_place=on", "Unknown switch 'in_place'", ""),
        ("exact=on", "Unknown switch 'exact'", ""),
    ):
        for read in (changes_of, lambda text: JobSettings(switches=text)):
            with pytest.raises(SettingsError, match=message) as caught:
                read(text)
            assert hint in caught.value.hint


def test_the_environment_is_checked_too() -> None:
    assert environment_changes({"UPREEL_RUN_TF32": "1", "UPREEL_DATA": "x"}) == {"run.tf32": True}
    old = {"UPREEL_DIT_ONEDNN_PRODUCTS": "off"}
    assert environment_changes(old) == {"dit.onednn_matmul": False}
    assert settings_of("dit.products=fp8", {}) == {"matmul": "fp8"}
    with pytest.raises(SettingsError, match="UPREEL_VAE_IN_PLAICE") as caught:
        environment_changes({"UPREEL_VAE_IN_PLAICE": "on"})
    assert "UPREEL_VAE_IN_PLACE" in caught.value.hint
    with pytest.raises(SettingsError, match="UPREEL_RUN_TF32 cannot be 'maybe'"):
        environment_changes({"UPREEL_RUN_TF32": "maybe"})


def test_set_takes_names_of_switches_and_groups() -> None:
    given = ["vae.temporal-winograd=on", "crf=18", "dit.compile = yes"]
    found = with_text(JobSettings(switches="run.tf32=on"), given)
    assert found.crf == 18
    names = ("run.tf32", "vae.temporal_winograd", "dit.compile")
    assert changes_of(found.switches) == dict.fromkeys(names, True)
    again = with_text(found, ["switches=", "vae.in_place=off"])
    assert changes_of(again.switches) == {"vae.in_place": False}
    assert with_text(JobSettings(), ["switches=exact", "all=off"]).switches == "exact,all=off"
    with pytest.raises(SettingsError, match=r"Unknown switch 'vae\.fly'"):
        with_text(JobSettings(), ["vae.fly=on"])


def test_attention_and_matmul_are_settings_by_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings_of("dit.attention=math,vae.in_place=off", {}) == {"attention": "math"}
    found = with_environment(JobSettings(switches="dit.attention=math"))
    assert (found.attention, found.matmul) == ("math", "none")
    monkeypatch.setenv("UPREEL_DIT_MATMUL", "fp8")
    monkeypatch.setenv("UPREEL_DIT_ATTENTION", "sdpa")
    assert with_environment(JobSettings()).matmul == "fp8"
    assert with_environment(JobSettings(attention="math")).attention == "math"
    assert switches_of("dit.attention=math", "cpu", None, {}).dit == DitSwitches.default_on("cpu")
    assert "auto" in ATTENTION


def test_what_is_named_is_told_apart_from_what_a_group_turns_on() -> None:
    environ = {"UPREEL_RUN_TF32": "on", "UPREEL_VAE_ALL": "on", "UPREEL_DIT_KERNELS": "on"}
    found = named_changes("run.allocator=async,dit.kernels=off,vae.kernels=on,vae.all=on", environ)
    assert found == {"run.allocator": "async", "dit.kernels": False, "run.tf32": True}
    assert named_changes("exact", {}) == {}


def test_a_plan_keeps_them() -> None:
    chosen = switches_of("run.allocator=async,vae.convolution=3d,dit.compile=on", "cuda", (8, 6))
    assert from_plain(Switches, to_plain(chosen)) == chosen
    usual = Switches(vae=VaeSwitches(), dit=DitSwitches(), run=RunSwitches())
    assert from_plain(Switches, {}) == usual


def test_choices_have_their_values_and_agree_with_the_settings_they_are() -> None:
    for entry in choices():
        assert entry.default in entry.values, entry.key
        assert entry.plain in ("", *entry.values), entry.key
        if entry.setting:
            assert about(entry.setting).choices == tuple(entry.values)
            assert getattr(JobSettings(), entry.setting) == entry.default
        else:
            assert getattr(GROUPS[entry.group](), entry.name) == entry.default


def test_all_off_one_alone_and_all() -> None:
    for group, name in ((VaeSwitches, "in_place"), (DitSwitches, "token_chunks")):
        names = [entry.name for entry in group.optimisations()]
        assert not any(getattr(group.all_off(), one) for one in names)
        assert group.only(EXACT) == group.all_off()
        assert [one for one in names if getattr(group.only(name), one)] == [name]
        assert not getattr(group().changed(name, False), name)
        assert group().changed(ALL, False) == group.all_off()
        assert all(getattr(group.only(ALL), one) for one in names)
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


def test_the_packaged_program_has_no_attention_packages() -> None:
    code = (
        "import sys; sys.frozen = True\n"
        "from engine.settings.schema import about\n"
        "from engine.settings.switches import changes_of\n"
        "print(*about('attention').choices, changes_of('fp4'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    kept = "auto sdpa cudnn flash efficient math {'dit.matmul': 'nvfp4'}"
    assert done.stdout.strip() == kept, done.stderr
    assert changes_of("fp4") == {"dit.matmul": "nvfp4", "dit.attention": "sage3-fp4"}
