"""Cases `optimisations-vae` and `optimisations-dit`: each switch by itself, in one line."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from engine.bench import dit_work
from engine.bench.ceilings import clocked
from engine.bench.dit_work import DitRun
from engine.bench.options import BenchOptions
from engine.bench.report import Row
from engine.bench.vae_models import Side, VaeRun
from engine.bench.vae_work import base_run, build, capability_of, random_weights, work_of
from engine.geometry import Size
from engine.models.seedvr2.dit_config import DIT_3B
from engine.optimisations import DitSwitches, Optimisation, VaeSwitches

Run = VaeRun | DitRun
Switches = VaeSwitches | DitSwitches
Pair = tuple[Side | Literal["forward"], int]  # and frames

_SIDES: tuple[Side, ...] = ("decode", "encode")
_FRAMES = (9, 1)  # two slices, as some switches only help in the second; an image
_DIT_FRAMES = 5
_DIT = {
    "cpu": replace(
        DIT_3B, dim=256, heads=2, layers=4, separate_layers=2, mlp_hidden=768, text_in_dim=256
    ),
    "cuda": replace(DIT_3B, layers=4, separate_layers=2),
}
_SIDE_PX = {"cpu": 64, "cuda": 512}  # large enough to tell, small enough for fifteen models


def optimisation_rows(options: BenchOptions) -> Iterator[Row]:
    """A line for each switch of the VAE; those that do nothing on this device say so.

    Each is compared with the defaults of users, in turns, so that whatever else the machine does
    hits both: a switch that is on is taken away, one that is off is added. "of_..." is the time
    with the defaults over the time without the switch (added: with it over without it): below 1
    it helps. `error` is the largest difference from the plain form in float32, in units of the
    largest value, of the result with the switch.
    """
    lab = _Lab(options)
    yield from _switch_rows(lab, VaeSwitches())
    for form in ("2d", "3d"):
        switches = replace(VaeSwitches(), convolution=form)
        row = lab.compare(switches, added=True)
        yield {"switch": f"convolution {form}", "exactness": "exact", **row}


def dit_optimisation_rows(options: BenchOptions) -> Iterator[Row]:
    """The same for the transformer: some layers of the 3B kind, one forward."""
    yield from _switch_rows(_DitLab(options), DitSwitches())


def _switch_rows(lab: _Lab, usual: Switches) -> Iterator[Row]:
    yield {"switch": "(defaults)", "exactness": "", **lab.errors(usual)}
    off = lab.compare(usual.all_off(), added=False)
    yield {"switch": "(all off)", "exactness": "", **off}
    for entry in usual.TABLE:
        yield {"switch": entry.name, "exactness": entry.exactness, **_row(lab, entry, usual)}


def _row(lab: _Lab, entry: Optimisation, usual: Switches) -> Row:
    if not entry.works_on(lab.device, lab.capability):
        return {"note": f"not on this {'card' if lab.device == 'cuda' else 'processor'}"}
    switches = usual.changed(entry.name, not entry.default)
    try:
        return lab.compare(switches, added=not entry.default)
    except torch.OutOfMemoryError:
        return {"note": "not enough memory"}


class _Lab:
    """The model with the defaults, its clips, and the truth."""

    def __init__(self, options: BenchOptions) -> None:
        base = replace(base_run(options, "decode"), form="fast")
        if options.size is None:
            side_px = _SIDE_PX[base.device] // (2 if options.quick else 1)
            base = replace(base, size=Size(side_px, side_px))
        lengths = options.frames or _FRAMES
        self._pairs: list[Pair] = [(side, frames) for side in _SIDES for frames in lengths]
        self._base: Run = base
        self._rounds = options.runs or (1 if options.quick else 3)
        self._weights: Mapping[str, Tensor] = random_weights(base)
        self._truth = self._results(replace(base, form="plain", dtype="float32"))
        self._usual = self._works(base)

    @property
    def device(self) -> str:
        """Kind of the torch device."""
        return self._base.device

    @property
    def capability(self) -> tuple[int, int] | None:
        """Of the card."""
        return capability_of(self.device)

    def errors(self, switches: Switches) -> Row:
        """How far the results of some switches are from the truth."""
        found = self._results(self._changed(switches))
        return {"error": max(_error(found[pair], self._truth[pair]) for pair in self._pairs)}

    def compare(self, switches: Switches, *, added: bool) -> Row:
        """Time with over time without, by side and frames, and the error."""
        other = self._works(self._changed(switches))
        row: Row = {}
        error = 0.0
        for pair in self._pairs:
            usual, changed = _Watch(self._usual[pair]), _Watch(other[pair])
            self._in_turns(usual, changed)
            ratio = changed.seconds / usual.seconds
            row["of_{}_{}".format(*pair)] = ratio if added else 1 / ratio
            error = max(error, _error(changed.result, self._truth[pair]))
        return row | {"error": error}

    def _in_turns(self, *watches: _Watch) -> None:
        warm_ups = 1  # tables for images are made by the first one that comes
        for turn in range(self._rounds):
            for watch in watches:
                watch.run(self.device, warm_ups=0 if turn else warm_ups)

    def _changed(self, switches: Switches) -> Run:
        change: dict[str, Any] = {"switches": switches}
        return replace(self._base, **change)

    def _works(self, run: Run) -> dict[Pair, Callable[[], Tensor]]:
        if not isinstance(run, VaeRun):
            raise TypeError("not a run of the VAE")
        vae = build(run, self._weights)
        return {
            (side, frames): work_of(replace(run, side=side, frames=frames), vae)
            for side, frames in self._pairs
            if side != "forward"
        }

    def _results(self, run: Run) -> dict[Pair, Tensor]:
        return {pair: work().cpu() for pair, work in self._works(run).items()}


class _DitLab(_Lab):
    """The same for the transformer, whose weights are all made once."""

    def __init__(self, options: BenchOptions) -> None:
        base = replace(dit_work.base_run(options, "3b"), form="fast", frames=_DIT_FRAMES)
        if options.dit is None:
            base = replace(base, config=_DIT[base.device])
        if options.size is None and base.device == "cpu":
            base = replace(base, size=Size(320, 192) if options.quick else Size(640, 368))
        self._pairs = [("forward", _DIT_FRAMES)]
        self._base = base
        self._rounds = options.runs or (1 if options.quick else 5)
        self._truth = self._results(replace(base, form="plain", dtype="float32"))
        self._usual = self._works(base)

    def _works(self, run: Run) -> dict[Pair, Callable[[], Tensor]]:
        if not isinstance(run, DitRun):
            raise TypeError("not a run of the transformer")
        return {pair: dit_work.work_of(run, dit_work.build(run)) for pair in self._pairs}


class _Watch:
    """A piece of work, how long its runs took, and what the last one gave."""

    def __init__(self, work: Callable[[], Tensor]) -> None:
        self._work = work
        self._found: list[float] = []
        self.result = torch.empty(0)

    def run(self, device: str, *, warm_ups: int) -> None:
        """Time one run."""
        timing = clocked(self._keep, device, runs=1, warm_ups=warm_ups)
        self._found.append(timing.seconds)

    @property
    def seconds(self) -> float:
        """Median of the runs."""
        return statistics.median(self._found)

    def _keep(self) -> None:
        self.result = self._work()


def _error(found: Tensor, truth: Tensor) -> float:
    difference = (found.cpu().double() - truth.double()).abs().max()
    return float(difference / truth.abs().max())
