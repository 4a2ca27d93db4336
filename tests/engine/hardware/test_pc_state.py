"""Time limit, scheduling, screens and power, by pretended readings."""

from types import SimpleNamespace
from typing import Any

import pytest

from engine.hardware import devices, nvml, pc_state
from engine.hardware.gpu_table import named

BATTERY = SimpleNamespace(percent=41.4, power_plugged=False)


def found(patch: pytest.MonkeyPatch, registry: dict[str, Any], battery: Any = None) -> dict:
    """State and text of each line by its name, on Windows."""
    patch.setattr(pc_state.sys, "platform", "win32")
    patch.setattr(pc_state, "machine_value", lambda _, name: registry.get(name))
    patch.setattr(pc_state.psutil, "sensors_battery", lambda: battery)
    return {line.name: (line.state, str(line.message)) for line in pc_state.lines()}


@pytest.mark.parametrize(
    ("registry", "state", "text"),
    [
        ({}, "ok", "2 s, as Windows sets it"),
        ({"TdrLevel": 3, "TdrDelay": 2}, "ok", "2 s, as Windows sets it"),
        ({"TdrDelay": 60}, "ok", "60 s, level 3 (TdrDelay"),
        ({"TdrDelay": 1}, "warning", "1 s, level 3 (TdrDelay"),
        ({"TdrLevel": 0}, "ok", "turned off (TdrLevel 0)"),
    ],
)
def test_the_time_limit_of_windows_is_read(
    registry: dict[str, int], state: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found_state, found_text = found(monkeypatch, registry)["GPU time limit"]
    assert (found_state, found_text[: len(text)]) == (state, text)


def test_scheduling_and_power_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, word in ((2, "is on"), (1, "is off"), (None, "is not set")):
        assert found(monkeypatch, {"HwSchMode": value})["GPU scheduling"][1].endswith(word)
    assert found(monkeypatch, {})["power"] == ("ok", "no battery")
    assert found(monkeypatch, {}, BATTERY)["power"] == ("warning", "runs on battery (41 %)")
    plugged = SimpleNamespace(percent=41.4, power_plugged=True)
    assert found(monkeypatch, {}, plugged)["power"][0] == "ok"


def test_a_screen_is_named_with_its_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    here = devices.as_gpus((named("RTX 4090"),))
    monkeypatch.setattr(devices, "gpus", lambda: here)
    monkeypatch.setattr(nvml, "handles", lambda: [None])
    for answer, text in ((1, "shows a screen"), (0, "shows no screen")):
        monkeypatch.setattr(nvml, "query", lambda *_, answer=answer: answer)
        assert found(monkeypatch, {})["screen"][1] == f"{here[0].name} {text}"
    monkeypatch.setattr(nvml, "query", lambda *_: None)  # the driver does not say
    assert "screen" not in found(monkeypatch, {})


def test_other_systems_have_no_limit_of_windows() -> None:
    names = {line.name for line in pc_state.lines()}
    assert "power" in names
    assert not names & {"GPU time limit", "GPU scheduling"}
