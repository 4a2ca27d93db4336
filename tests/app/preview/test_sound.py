"""Sound of playback, on a device that is none."""

import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from app.preview.sound import SoundBuffer, SoundOut
from app.preview.timeline import VolumeControl
from app.ui_state import UiState

RATE = 1000
NOW = SimpleNamespace(outputBufferDacTime=5.0, currentTime=5.0)


def _part(first: int, count: int) -> SimpleNamespace:
    """Samples whose value is their number."""
    values = np.arange(first, first + count, dtype=np.float32)
    return SimpleNamespace(seconds=first / RATE, samples=np.stack([values, values], axis=1))


def _given(buffer: SoundBuffer, position: float | None, count: int = 10) -> list[int]:
    out = np.full((count, 2), -1, np.float32)
    buffer.give(out, position, 1.0)
    assert (out[:, 0] == out[:, 1]).all()
    return out[:, 0].astype(int).tolist()


class Device:
    """In place of the module `sounddevice`; the tests call the callback."""

    def __init__(self) -> None:
        self.stream: SimpleNamespace | None = None
        self.closed = threading.Event()

    def query_devices(self, kind: str) -> dict[str, float]:
        return {"default_samplerate": float(RATE)}

    def OutputStream(self, **options):
        self.stream = SimpleNamespace(active=True, **options)
        return self

    def __enter__(self):
        return self.stream

    def __exit__(self, *error: object) -> None:
        self.closed.set()

    def ask(self, count: int = 10) -> list[int]:
        out = np.zeros((count, 2), np.float32)
        self.stream.callback(out, count, NOW, None)
        return out[:, 0].astype(int).tolist()


@pytest.fixture
def device(monkeypatch) -> Device:
    device = Device()
    monkeypatch.setitem(sys.modules, "sounddevice", device)
    return device


@pytest.fixture
def sound(qtbot):
    sound = SoundOut()
    yield sound
    voice = sound._voice
    sound.stop()
    if voice is not None:
        voice.thread.join(5)
        assert not voice.thread.is_alive()


def test_sound_comes_without_a_gap_while_the_clock_wavers():
    buffer = SoundBuffer(RATE)
    buffer.add(_part(0, 64))
    buffer.add(_part(64, 64))
    given = _given(buffer, 0.050) + _given(buffer, 0.064) + _given(buffer, 0.066)
    assert given == list(range(50, 80))


def test_sound_jumps_to_a_clock_that_went_away_from_it():
    buffer = SoundBuffer(RATE)
    buffer.add(_part(0, 500))
    assert _given(buffer, 0.1)[0] == 100
    assert _given(buffer, 0.2)[0] == 200


def test_a_gap_in_the_track_is_silent():
    buffer = SoundBuffer(RATE)
    buffer.add(_part(0, 5))
    buffer.add(_part(8, 5))
    assert _given(buffer, 0.0) == [0, 1, 2, 3, 4, 0, 0, 0, 8, 9]


def test_sound_waits_with_the_clock():
    buffer = SoundBuffer(RATE)
    buffer.add(_part(0, 50))
    assert _given(buffer, None) == [0] * 10
    assert _given(buffer, 0.02)[0] == 20


def test_the_device_gets_what_the_clock_shows(qtbot, device, sound):
    at = [None]
    sound.play(lambda start, rate: iter([_part(round(start * rate), 500)]), 0.2, lambda: at[0])
    qtbot.waitUntil(lambda: bool(sound._voice._buffer and sound._voice._buffer._parts))
    assert device.ask() == [0] * 10  # the first pictures are not there yet
    at[0] = 0.25
    assert device.ask() == list(range(250, 260))
    sound.gain = 0.0
    at[0] = 0.3
    assert device.ask() == [0] * 10
    sound.stop()
    assert device.closed.wait(5)


def test_a_device_that_goes_is_said(qtbot, device, sound):
    with qtbot.waitSignal(sound.no_device):
        sound.play(lambda start, rate: iter([_part(0, 50)]), 0.0, lambda: 0.0)
        qtbot.waitUntil(lambda: device.stream is not None)
        device.stream.finished_callback()


def test_a_machine_without_portaudio_is_said(qtbot, monkeypatch, sound):
    class Missing:
        def find_spec(self, name, path=None, target=None):
            if name == "sounddevice":
                raise OSError("PortAudio library not found")

    monkeypatch.delitem(sys.modules, "sounddevice", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Missing(), *sys.meta_path])
    with qtbot.waitSignal(sound.no_device):
        sound.play(lambda start, rate: iter(()), 0.0, lambda: 0.0)


def test_volume_and_mute_are_kept(qtbot, tmp_path):
    for is_second in (False, True):
        state, control = UiState(tmp_path / "window.ini"), VolumeControl()
        qtbot.addWidget(control)
        control.keep_in(state)
        if is_second:
            assert (control.slider.value(), control.mute.isChecked()) == (50, True)
            control.mute.setChecked(False)
            assert control.gain == 0.25
        else:
            control.slider.setValue(50)
            control.mute.setChecked(True)
            assert control.gain == 0.0
        state.save()
