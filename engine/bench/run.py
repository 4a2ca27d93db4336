"""What can be measured: each case gives rows of figures, and is loaded when it is wanted.

So a machine without PyAV and Qt can measure the models.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from engine.bench.cases.shared import Bench
from engine.bench.options import BenchOptions, check
from engine.bench.report.machine import Row, machine_row
from engine.core.errors import SettingsError
from engine.hardware import devices

Rows = Callable[[Bench], Iterator[Row]]


@dataclass(frozen=True, slots=True)
class Case:
    """One case."""

    rows: Rows
    is_usual: bool = True  # measured when no case is named
    is_quick: bool = False  # also with --quick


def _film(name: str) -> Case:
    def rows(bench: Bench) -> Iterator[Row]:
        from engine.bench.cases import film

        return film.CASES[name](bench)

    return Case(rows)


def _vae(side: Literal["encode", "decode"]) -> Case:
    def rows(bench: Bench) -> Iterator[Row]:
        from engine.bench.cases.vae import vae_rows

        return vae_rows(bench.options, side)

    return Case(rows, is_usual=False)


def _round_trip(bench: Bench) -> Iterator[Row]:
    from engine.bench.cases.round_trip import round_trip_rows

    return round_trip_rows(bench.options)


def _dit(kind: Literal["3b", "7b"]) -> Case:
    def rows(bench: Bench) -> Iterator[Row]:
        from engine.bench.cases.dit import dit_rows

        return dit_rows(bench.options, kind)

    return Case(rows, is_usual=False)


def _seedvr2(bench: Bench) -> Iterator[Row]:
    from engine.bench.cases.seedvr2 import seedvr2_rows

    return seedvr2_rows(bench.options)


def _optimisations(bench: Bench) -> Iterator[Row]:
    from engine.bench.cases.optimisations import optimisation_rows

    return optimisation_rows(bench.options)


def _dit_optimisations(bench: Bench) -> Iterator[Row]:
    from engine.bench.cases.optimisations import dit_optimisation_rows

    return dit_optimisation_rows(bench.options)


def _around(bench: Bench) -> Iterator[Row]:
    from engine.bench.cases.machine_flags import around_rows

    return around_rows(bench.options)


def _models(bench: Bench) -> Iterator[Row]:
    from engine.bench.cases.models import model_rows

    return model_rows(bench.options)


def _speed(bench: Bench) -> Iterator[Row]:
    from engine.bench.calibration import calibrate

    options = bench.options
    rates = calibrate.calibrate()
    if options.threads is None and options.device == "auto":  # as jobs compute
        calibrate.keep(rates)
    return iter([{"what": name, "figure": text} for name, text in calibrate.figures(rates)])


def _kernels(bench: Bench) -> Iterator[Row]:
    from engine.bench.cases.kernels import measure_bandwidth
    from engine.bench.cases.vae_runs import device_of

    return measure_bandwidth(device_of(bench.options), quick=bench.quick)


def _attention(bench: Bench) -> Iterator[Row]:
    from engine.bench.cases.attention import measure_attention
    from engine.bench.cases.vae_runs import device_of

    return measure_attention(device_of(bench.options), quick=bench.quick)


def _products(bench: Bench) -> Iterator[Row]:
    from engine.bench.cases.matmul_formats import product_rows

    return product_rows(bench.options)


CASES: dict[str, Case] = {
    "speed": Case(_speed, is_quick=True),
    "lite": _film("lite"),
    "pipeline": _film("pipeline"),
    "colour": _film("colour"),
    "read": _film("read"),
    "write": _film("write"),
    "vae-encode": _vae("encode"),
    "vae-decode": _vae("decode"),
    "round-trip": Case(_round_trip, is_usual=False),
    "dit-3b": _dit("3b"),
    "dit-7b": _dit("7b"),
    "seedvr2": Case(_seedvr2, is_usual=False),
    "optimisations-vae": Case(_optimisations, is_usual=False),
    "optimisations-dit": Case(_dit_optimisations, is_usual=False),
    "optimisations-around": Case(_around, is_usual=False),
    "models": Case(_models, is_usual=False),
    "kernels": Case(_kernels, is_usual=False),
    "attention": Case(_attention, is_usual=False),
    "products": Case(_products, is_usual=False),
}
GROUPS = {
    "vae": ("vae-encode", "vae-decode"),
    "dit": ("dit-3b", "dit-7b"),
    "optimisations": ("optimisations-vae", "optimisations-dit", "optimisations-around"),
}


def run(
    cases: Sequence[str],
    *,
    options: BenchOptions | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> list[Row]:
    """Measure the named cases, the usual ones when none is named.

    Args:
        cases: Names out of CASES and GROUPS.
        options: How; `quick` without names is the speed test alone, less than a minute.
        tell: Gets a line after each case, and after each switch and model.

    Raises:
        SettingsError: There is no such case, or an option is impossible.
    """
    found: list[Row] = []
    for row in measured(cases, options=options):
        if found[1:] and row["case"] != found[-1]["case"]:
            tell(f"{found[-1]['case']} measured")
        found.append(row)
        if "switch" in row or "model" in row:  # they take minutes
            tell(f"{row.get('switch') or row['model']} measured")
    if found[1:]:
        tell(f"{found[-1]['case']} measured")
    return found


def measured(
    cases: Sequence[str], *, options: BenchOptions | None = None
) -> Generator[Row, None, None]:
    """The same, row by row: first what it is measured on, then each as it is there.

    Raises:
        SettingsError: As `run`, before the first row.
    """
    options = options or BenchOptions()
    names = named(cases, options)
    check(options)
    threads = torch.get_num_threads()
    torch.set_num_threads(options.threads or devices.cpu_threads())
    try:
        yield machine_row()
        with tempfile.TemporaryDirectory(prefix="upreel-bench-") as folder:
            bench = Bench(folder=Path(folder), options=options)
            for name in names:
                for row in _without_gradients(CASES[name].rows, bench):
                    yield {"case": name, **row}
    finally:
        torch.set_num_threads(threads)


def _without_gradients(rows: Rows, bench: Bench) -> Iterator[Row]:
    """Each row in torch's inference mode, which its reader does not get into."""
    with torch.inference_mode():
        found = rows(bench)
    while True:
        with torch.inference_mode():
            row = next(found, None)
        if row is None:
            return
        yield row


def named(cases: Sequence[str], options: BenchOptions) -> tuple[str, ...]:
    """Names of the cases to measure, each once; a VAE with a clip is sent there and back."""
    unknown = [name for name in cases if name not in CASES and name not in GROUPS]
    if unknown:
        choice = ", ".join([*CASES, *GROUPS])
        raise SettingsError(f"There is no case {unknown[0]!r}.", hint=f"Choose among: {choice}.")
    groups = GROUPS | ({"vae": ("round-trip",)} if options.clip is not None else {})
    wanted = cases or [
        name for name, case in CASES.items() if (case.is_quick if options.quick else case.is_usual)
    ]
    return tuple(dict.fromkeys(one for name in wanted for one in groups.get(name, (name,))))
