"""Cases `optimisations-vae` and `optimisations-dit`: each switch by itself, in one line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from engine.bench.cases.switch_models import (
    Built,
    DitSubject,
    Subject,
    VaeSubject,
)
from engine.bench.cases.vae_runs import capability_of
from engine.bench.options import BenchOptions
from engine.bench.report.machine import Row
from engine.bench.timing.paired_timing import Effort, Ratio, compare
from engine.bench.timing.peak_allocations import peak_bytes
from engine.core.errors import FeatureMissing
from engine.ops.attention import attention
from engine.settings.optimisations import Optimisation

ALL = "all"  # every switch of a model together
_OF_IMAGES = ("image_mode",)  # do nothing in a clip
_EFFORT = Effort(least=3, most=7)
_QUICK = Effort.exactly(3)


def optimisation_rows(options: BenchOptions) -> Iterator[Row]:
    """A line for each switch of the VAE; those that do nothing on this device say so.

    Each is compared with the defaults of users, in turns: a switch that is on is taken away, one
    that is off is added. `time` is the time with the switch over the time without it: below 1 it
    helps; `scatter` its standard error, out of `turns`. `memory` is the same of the peak of what
    tensors take, above the loaded model. `error` is the relative error (RMS) with the switch beside
    the plain form in float64, `error_without` the same without it.
    """
    lab = Lab(VaeSubject(options), options)
    yield from lab.rows()
    for form in ("2d", "3d"):
        yield lab.choice("convolution", form)


def dit_optimisation_rows(options: BenchOptions) -> Iterator[Row]:
    """The same for the transformer: some layers of the 3B kind, one forward."""
    subject = DitSubject(options)
    lab = Lab(subject, options)
    yield from lab.rows()
    run = subject.run
    for name in attention.working(run.device, run.torch_dtype, run.config.head_dim):
        yield lab.choice("attention", name)


@dataclass(frozen=True, slots=True)
class _Known:
    """A form of the model that was built, its peak and its error."""

    built: Built
    clip_peak: int
    error: float


class Lab:
    """A model with the defaults, that others take turns with."""

    def __init__(self, subject: Subject, options: BenchOptions) -> None:
        self._subject = subject
        self._effort = effort_of(options)
        self._quick = options.quick
        subject.built(subject.usual).clip()  # what torch and our own rooms keep for good
        self._usual = self._known(subject.usual)

    def rows(self) -> Iterator[Row]:
        """What is measured, all switches together, then each."""
        yield {**self._name("usual"), "about": self._subject.about, "error": self._usual.error}
        yield {**self._name(ALL), **self._compare(self._subject.usual.all_off(), added=False)}
        for entry in self._subject.usual.optimisations():
            yield {**self._name(entry.name), **self._row(entry)}

    def choice(self, name: str, value: str) -> Row:
        """A choice that is not the usual one."""
        switches = self._changed(name, value)
        return {**self._name(f"{name}={value}"), **self._compare(switches, added=True)}

    def _name(self, name: str) -> Row:
        return {"switch": f"{self._subject.name}.{name}"}

    def _row(self, entry: Optimisation) -> Row:
        device = self._subject.device
        if not entry.works_on(device, capability_of(device)):
            return {"note": f"does nothing on {_kind(device)}"}
        is_on = bool(getattr(self._subject.usual, entry.name))
        switches = self._subject.usual.changed(entry.name, not is_on)
        if entry.at_start:
            return {"note": f"counts from the start: measure again with {entry.variable} turned"}
        if entry.name == "compile" and self._quick:
            return {"note": "compiling takes too long for --quick"}
        try:
            return self._compare(switches, added=not is_on, of_images=entry.name in _OF_IMAGES)
        except torch.OutOfMemoryError:
            return {"note": "not enough memory"}
        except FeatureMissing as err:
            return {"note": err.message}

    def _compare(self, switches: Any, *, added: bool, of_images: bool = False) -> Row:
        """The figures with something beside those without it; `added` is not usual."""
        other, usual = self._known(switches), self._usual
        pair = (other, usual) if added else (usual, other)
        time = self._ratio(pair, of_images=of_images)
        row: Row = {"time": time.value, "turns": time.turns}
        if time.scatter is not None:
            row["scatter"] = time.scatter
        if of_images:
            row["note"] = "one frame at a time"
        else:
            row["memory"] = pair[0].clip_peak / pair[1].clip_peak
        return row | {"error": pair[0].error, "error_without": pair[1].error}

    def _ratio(self, pair: tuple[_Known, _Known], *, of_images: bool) -> Ratio:
        first, second = (known.built.image if of_images else known.built.clip for known in pair)
        if of_images:  # tables for images are made by the first one; the clip has run already
            first()
            second()
        return compare(first, second, self._subject.device, self._effort)

    def _known(self, switches: Any) -> _Known:
        """Build it and warm it up; the first run shows what it keeps."""
        built = self._subject.built(switches)
        peak = peak_bytes(built.clip, self._subject.device)
        return _Known(built, peak, self._subject.error(built))

    def _changed(self, name: str, value: str) -> Any:
        return replace(self._subject.usual, **{name: value})


def effort_of(options: BenchOptions) -> Effort:
    """How often work takes turns."""
    if options.runs:
        return Effort.exactly(options.runs)
    return _QUICK if options.quick else _EFFORT


def _kind(device: str) -> str:
    return "this card" if device == "cuda" else "a processor"
