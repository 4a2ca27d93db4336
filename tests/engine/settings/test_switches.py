"""The registry as users reach it: by a text, by environment, and by the defaults of a device."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from engine.core.errors import SettingsError
from engine.core.serialization import from_plain, to_plain
from engine.settings.optimisations import (
    CLAIMS,
    GROUPS,
    Choice,
    DitSwitches,
    RunSwitches,
    VaeSwitches,
    choices,
    switches,
)
from engine.settings.schema import ATTENTION, JobSettings, describe, with_environment, with_text
from engine.settings.switches import (
    Switches,
    changes_of,
    default_switches,
    environment_changes,
    settings_of,
    switches_of,
    text_of,
    without_effect,
)

PLACES = [("cpu", None), ("cuda", (7, 5)), ("cuda", (8, 6)), ("cuda", (8, 9)), ("cuda", (12, 0))]
EVERY_PLACE = pytest.mark.parametrize(("device", "capability"), PLACES)
LINES = (*switches(), *choices())


def test_names_in_settings_and_environment_are_there_once() -> None:
    assert len({entry.key for entry in LINES}) == len(LINES)
    assert len({entry.variable for entry in LINES}) == len(LINES)
    assert all(entry.key.partition(".")[0] == entry.group for entry in LINES)


def test_lines_say_why_and_where() -> None:
    for entry in LINES:
        assert entry.reason.endswith("."), entry.key
        assert entry.does.endswith("."), entry.key
        assert entry.group in GROUPS


def test_choices_are_fields_or_settings() -> None:
    for entry in choices():
        assert entry.default in entry.values
        if entry.setting:
            about = describe(JobSettings)[entry.setting]
            assert about.choices == entry.values
            assert getattr(JobSettings(), entry.setting) == entry.default
        else:
            assert getattr(GROUPS[entry.group](), entry.name) == entry.default


def test_claims_name_lines_or_say_why_there_is_none() -> None:
    keys = {entry.key for entry in LINES}
    for claim in CLAIMS:
        assert bool(claim.keys) != bool(claim.why_not), claim.title
        assert set(claim.keys) <= keys, claim.title


@EVERY_PLACE
def test_defaults_never_change_results(device: str, capability: tuple[int, int] | None) -> None:
    found = default_switches(device, capability)
    for entry in switches():
        if getattr(getattr(found, entry.group), entry.name):
            assert entry.exactness == "exact"
            assert entry.works_on(device, capability)


def test_defaults_follow_the_device() -> None:
    cpu, turing = default_switches("cpu"), default_switches("cuda", (7, 5))
    assert cpu.dit.onednn_products
    assert not turing.dit.onednn_products
    assert not cpu.vae.kernels
    assert turing.vae.kernels
    assert not default_switches("cuda", (7, 0)).vae.kernels
    assert not cpu.run.pinned_transfers
    assert turing.run.pinned_transfers
    assert cpu.run.passive_threads
    assert turing.run.passive_threads


@EVERY_PLACE
@pytest.mark.parametrize("entry", switches(), ids=lambda entry: entry.key)
def test_each_line_by_text_and_by_environment(
    entry: Any, device: str, capability: tuple[int, int] | None
) -> None:
    """Whatever a user says is done, and nothing else changes; the text has the last word."""
    usual = switches_of("", device, capability, {})
    before = bool(getattr(getattr(usual, entry.group), entry.name))
    word = {True: "on", False: "off"}
    by_text = switches_of(f"{entry.key}={word[not before]}", device, capability, {})
    assert by_text.changes_from(usual) == {entry.key: not before}
    environ = {entry.variable: word[not before]}
    assert switches_of("", device, capability, environ) == by_text
    assert switches_of(f"{entry.key}={word[before]}", device, capability, environ) == usual


def test_a_text_comes_back_from_its_changes() -> None:
    text = "vae.temporal_winograd=on,vae.convolution=2d,run.tf32=off"
    assert text_of(changes_of(text)) == text
    assert changes_of(" VAE.in-place = No , ,vae.in_place=on") == {"vae.in_place": True}
    assert changes_of("") == {}


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("vae.temporal_vinograd=on", "no switch 'vae.temporal_vinograd'", "vae.temporal_winograd"),
        ("dit.fused_step=on", "no switch", "dit.fused_steps"),
        ("vae.in_place", "not name=value", "vae.temporal_winograd=on"),
        ("vae.in_place=perhaps", "vae.in_place cannot be 'perhaps'", "on, off"),
        ("vae.convolution=4d", "vae.convolution cannot be '4d'", "auto, 2d, 3d"),
        ("in_place=on", "no switch 'in_place'", ""),
    ],
)
def test_what_cannot_be_read_is_told_with_the_nearest(text: str, message: str, hint: str) -> None:
    for read in (changes_of, lambda text: JobSettings(switches=text)):
        with pytest.raises(SettingsError, match=message) as caught:
            read(text)
        assert hint in caught.value.hint


def test_the_environment_is_checked_too() -> None:
    assert environment_changes({"UPREEL_RUN_TF32": "1", "UPREEL_DATA": "x"}) == {"run.tf32": True}
    with pytest.raises(SettingsError, match="UPREEL_VAE_IN_PLAICE") as caught:
        environment_changes({"UPREEL_VAE_IN_PLAICE": "on"})
    assert "UPREEL_VAE_IN_PLACE" in caught.value.hint
    with pytest.raises(SettingsError, match="UPREEL_RUN_TF32 cannot be 'maybe'"):
        environment_changes({"UPREEL_RUN_TF32": "maybe"})


def test_set_takes_names_of_switches() -> None:
    found = with_text(
        JobSettings(switches="run.tf32=on"),
        ["vae.temporal-winograd=on", "crf=18", "dit.compile = yes"],
    )
    assert found.crf == 18
    assert changes_of(found.switches) == {
        "run.tf32": True,
        "vae.temporal_winograd": True,
        "dit.compile": True,
    }
    again = with_text(found, ["switches=", "vae.in_place=off"])
    assert changes_of(again.switches) == {"vae.in_place": False}
    with pytest.raises(SettingsError, match=r"no switch 'vae\.fly'"):
        with_text(JobSettings(), ["vae.fly=on"])


def test_attention_and_products_are_settings_under_another_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert settings_of("dit.attention=math,vae.in_place=off", {}) == {"attention": "math"}
    said = with_environment(JobSettings(switches="dit.attention=math"))
    assert (said.attention, said.products) == ("math", "none")
    monkeypatch.setenv("UPREEL_DIT_PRODUCTS", "fp8")
    monkeypatch.setenv("UPREEL_DIT_ATTENTION", "sdpa")
    assert with_environment(JobSettings()).products == "fp8"
    assert with_environment(JobSettings(attention="math")).attention == "math"
    assert switches_of("dit.attention=math", "cpu", None, {}).dit == DitSwitches.default_on("cpu")
    assert "auto" in ATTENTION


def test_what_another_system_lacks_is_refused() -> None:
    allocator = next(entry for entry in choices() if entry.key == "run.allocator")
    assert isinstance(allocator, Choice)
    assert allocator.has("expandable", "linux")
    assert not allocator.has("expandable", "win32")
    assert allocator.has("async", "win32")
    assert not allocator.has("magic", "linux")
    if sys.platform == "linux":
        text = "run.allocator=expandable"
        assert switches_of(text, "cuda", (8, 6), {}).run.allocator == "expandable"


def test_what_does_nothing_here_is_named() -> None:
    text = "run.tf32=on,vae.temporal_winograd=on,vae.cuda_graph=on,vae.kernels=off"
    assert without_effect(text, "cpu") == ("run.tf32", "vae.cuda_graph")
    assert without_effect(text, "cuda", (7, 5)) == ("run.tf32",)
    assert without_effect(text, "cuda", (8, 6)) == ()


def test_a_plan_keeps_them() -> None:
    chosen = switches_of("run.allocator=async,vae.convolution=3d,dit.compile=on", "cuda", (8, 6))
    assert from_plain(Switches, to_plain(chosen)) == chosen
    usual = Switches(vae=VaeSwitches(), dit=DitSwitches(), run=RunSwitches())
    assert from_plain(Switches, {}) == usual
