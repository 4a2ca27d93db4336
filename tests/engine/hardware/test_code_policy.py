import ctypes
import sys

import pytest

from engine.core.errors import (
    RuntimeBroken,
    is_code_refusal,
    is_memory_refusal,
    is_refused_process,
    states_code_refusal,
)
from engine.hardware import code_policy

GERMAN = "Eine Anwendungssteuerungsrichtlinie hat diese Datei blockiert."


def test_the_state_of_smart_app_control_is_a_value_of_the_registry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values: dict[tuple[str, str], object] = {}
    monkeypatch.setattr(code_policy, "machine_value", lambda *asked: values.get(asked))
    place = r"SYSTEM\CurrentControlSet\Control\CI\Policy", "VerifiedAndReputablePolicyState"
    for value, state in ((0, "off"), (1, "on"), (2, "evaluation"), (9, ""), ("1", ""), (None, "")):
        values[place] = value
        assert code_policy.smart_app_control() == state


def test_on_windows_the_self_test_names_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (sys.platform == "win32") == bool(list(code_policy.lines()))
    monkeypatch.setattr(sys, "platform", "win32")
    for found, state in (("on", "warning"), ("evaluation", "ok"), ("off", "ok"), ("", "ok")):
        monkeypatch.setattr(code_policy, "smart_app_control", lambda found=found: found)
        (line,) = code_policy.lines()
        assert (line.state, bool(str(line.hint))) == (state, state == "warning")


def test_a_refusal_of_windows_is_known_by_its_number_or_its_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numbered = OSError("An Application Control policy has blocked this file.")
    numbered.winerror = 4551
    named = OSError('[WinError 4551] ... Error loading "c10_cuda.dll" or one of its dependencies.')
    foreign = ImportError(f"DLL load failed while importing _C: {GERMAN}")
    missing = OSError("[WinError 126] The specified module could not be found")
    assert is_code_refusal(numbered)
    assert is_code_refusal(named)
    assert not is_code_refusal(foreign), "its language is unknown elsewhere than on Windows"
    monkeypatch.setattr(sys, "platform", "win32")
    for sentence, is_refusal in ((f"{GERMAN}\r\n", True), ("<no description>", False)):
        monkeypatch.setattr(ctypes, "FormatError", lambda _, s=sentence: s, raising=False)
        assert is_code_refusal(foreign) is is_refusal
        assert states_code_refusal(f"Traceback ... {GERMAN}") is is_refusal
        assert not is_code_refusal(missing)
        assert not is_code_refusal(RuntimeBroken("wrong-result", device="cpu"))
        assert not is_memory_refusal(numbered)


def test_a_process_that_windows_ended_before_its_start_has_a_status_of_its_own() -> None:
    assert is_refused_process(0xC0E90002)
    assert is_refused_process(0xC0E90002 - 2**32)
    assert not is_refused_process(3)
    assert not is_refused_process(0xC0000005)
