"""Four seconds of music for the sample clip: plucked notes over soft chords, in stereo."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

RATE = 48000  # Hz
SECONDS = 4
Signal = NDArray[np.float64]

# One chord a second: D major 9, B minor 7, G major 7, A (as MIDI numbers, low to high).
CHORDS = (
    (50, 57, 62, 66, 69, 76),
    (47, 54, 59, 62, 66, 69),
    (43, 55, 59, 62, 66, 74),
    (45, 57, 61, 64, 69, 73),
)
MELODY = (
    (0.0, 78),
    (0.5, 81),
    (0.75, 83),
    (1.0, 81),
    (1.5, 78),
    (2.0, 74),
    (2.25, 76),
    (2.5, 78),
    (3.0, 76),
)


def frequency(note: float) -> float:
    """Return the frequency in Hz of a MIDI note number."""
    return float(440.0 * 2 ** ((note - 69) / 12))


def pluck(note: int, seconds: float) -> Signal:
    """A plucked string: eight harmonics, the higher the sooner gone."""
    time = np.arange(int(seconds * RATE)) / RATE
    sound = np.zeros_like(time)
    for harmonic in range(1, 9):
        pitch = frequency(note) * harmonic * np.sqrt(1 + 0.0002 * harmonic**2)
        sound += (
            np.sin(2 * np.pi * pitch * time)
            * np.exp(-time * (1.8 + 1.7 * harmonic))
            / harmonic**1.4
        )
    return sound * np.minimum(time / 0.004, 1) * np.minimum((seconds - time) / 0.02, 1)


def pad(note: int, seconds: float, detune: float) -> Signal:
    """A soft sustained tone that swells and fades; `detune` in cents keeps left and right apart."""
    time = np.arange(int(seconds * RATE)) / RATE
    pitch = frequency(note + detune / 100)
    sound = np.sin(2 * np.pi * pitch * time) + 0.25 * np.sin(4 * np.pi * pitch * time + 0.7)
    return sound * np.sin(np.pi * np.minimum(time / seconds, 1)) ** 0.8


def add(track: Signal, start: float, sound: Signal) -> None:
    """Mix `sound` into `track` from `start` seconds on; what hangs over the end is cut."""
    first = int(start * RATE)
    length = min(len(sound), len(track) - first)
    track[first : first + length] += sound[:length]


def dry_mix(channel: int) -> Signal:
    """Play chords and melody for one channel (0 left, 1 right), without any room."""
    track = np.zeros(SECONDS * RATE)
    side = 1 if channel else -1
    for bar, chord in enumerate(CHORDS):
        for step, note in enumerate(chord):
            level = 0.20 * (1 + 0.25 * side * (-1) ** step)
            add(track, bar + step / 6, level * pluck(note, 2.0))
            add(track, max(bar - 0.1, 0), 0.045 * pad(note, 1.3, 4 * side))
    for start, note in MELODY:
        add(track, start, 0.20 * (1 - 0.2 * side) * pluck(note, 1.6))
    return track


def room(track: Signal, rng: np.random.Generator) -> Signal:
    """Add a second of decaying echo."""
    time = np.arange(RATE) / RATE
    tail = rng.standard_normal(RATE) * np.exp(-5.5 * time) * np.minimum(time / 0.02, 1)
    length = len(track) + RATE
    spectrum = np.fft.rfft(track, length) * np.fft.rfft(tail / np.linalg.norm(tail), length)
    return track + 0.45 * np.fft.irfft(spectrum, length)[: len(track)]


def music() -> NDArray[np.float32]:
    """Return the whole piece, [2, SECONDS * RATE], peak 0.5, faded at both ends."""
    rng = np.random.default_rng(24)
    sound = np.stack([room(dry_mix(channel), rng) for channel in (0, 1)])
    time = np.arange(SECONDS * RATE) / RATE
    sound *= np.minimum(time / 0.01, 1) * np.clip((SECONDS - time) / 0.7, 0, 1) ** 1.5
    return (0.5 * sound / np.abs(sound).max()).astype(np.float32)
