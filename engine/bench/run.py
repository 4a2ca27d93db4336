"""The cases of the benchmark, and what measures them.

Modules of cases are loaded when a case runs: models can be measured without PyAV.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module

import torch

from engine.bench.options import BenchOptions, check
from engine.bench.report.machine import Row, machine_row
from engine.core.errors import SettingsError
from engine.core.messages import Message
from engine.hardware import devices, torch_memory


@dataclass(frozen=True, slots=True)
class BenchCase:
    """A case of the benchmark: a function that yields a row for each measurement.

    Attributes:
        function: Module and function in `engine.bench`: "cases.vae:vae_rows". Takes BenchOptions.
        argument: Second argument of the function; "" where it has none.
        is_default: Measured when no case is named.
        is_quick: Measured with --quick when no case is named.
    """

    function: str
    argument: str = ""
    is_default: bool = False
    is_quick: bool = False

    def rows(self, options: BenchOptions) -> Iterator[Row]:
        """Load the case and begin to measure."""
        module, _, name = self.function.partition(":")
        function = getattr(import_module(f"engine.bench.{module}"), name)
        rows: Iterator[Row] = function(options, *filter(None, [self.argument]))
        return rows


CASES: dict[str, BenchCase] = {
    "speed": BenchCase("calibration.calibrate:speed_rows", is_default=True, is_quick=True),
    "lite": BenchCase("cases.video:lite_rows", is_default=True),
    "pipeline": BenchCase("cases.video:pipeline_rows", is_default=True),
    "colour": BenchCase("cases.video:colour_rows", is_default=True),
    "read": BenchCase("cases.video:read_rows", is_default=True),
    "write": BenchCase("cases.video:write_rows", is_default=True),
    "vae-encode": BenchCase("cases.vae:vae_rows", "encode"),
    "vae-decode": BenchCase("cases.vae:vae_rows", "decode"),
    "vae-parts": BenchCase("cases.vae_parts:part_rows"),
    "round-trip": BenchCase("cases.round_trip:round_trip_rows"),
    "dit-3b": BenchCase("cases.dit:dit_rows", "3b"),
    "dit-7b": BenchCase("cases.dit:dit_rows", "7b"),
    "seedvr2": BenchCase("cases.seedvr2:seedvr2_rows"),
    "optimisations-vae": BenchCase("cases.switches:vae_switch_rows"),
    "optimisations-dit": BenchCase("cases.switches:dit_switch_rows"),
    "optimisations-around": BenchCase("cases.switches:other_switch_rows"),
    "optimisations-claims": BenchCase("cases.claims:claim_rows"),
    "models": BenchCase("cases.models:model_rows"),
    "community": BenchCase("cases.community:community_rows"),
    "kernels": BenchCase("cases.kernels:kernel_rows"),
    "attention": BenchCase("cases.kernels:attention_rows"),
    "products": BenchCase("cases.matmul_formats:matmul_rows"),
    "formats-3b": BenchCase("cases.dit_formats:format_rows", "3b"),
    "formats-7b": BenchCase("cases.dit_formats:format_rows", "7b"),
    "streaming": BenchCase("cases.dit_formats:streaming_rows"),
    "seedvr2-job": BenchCase("cases.video:seedvr2_job_rows"),
    "workers": BenchCase("cases.workers:worker_rows"),
    "farm": BenchCase("cases.farm:farm_rows"),
    "flicker": BenchCase("cases.flicker:flicker_rows"),
    "streams": BenchCase("cases.streams:stream_rows"),
    "facts": BenchCase("cases.facts:fact_rows"),
    "kernel-errors": BenchCase("cases.kernels:kernel_error_rows"),
    "memory-pressure": BenchCase("cases.memory_pressure:pressure_rows"),
    "gpu-tests": BenchCase("cases.gpu_tests:gpu_test_rows"),
    "first-contact": BenchCase("first_contact:contact_rows"),
}
GROUPS = {
    "vae": ("vae-encode", "vae-decode", "vae-parts"),
    "dit": ("dit-3b", "dit-7b"),
    "formats": ("formats-3b", "formats-7b"),
    "optimisations": tuple(f"optimisations-{of}" for of in ("vae", "dit", "around", "claims")),
}


def run(
    cases: Sequence[str],
    *,
    options: BenchOptions | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> list[Row]:
    """Measure some cases; rows are plain data in English.

    Args:
        cases: Names of cases and groups; the default cases where none is named.
        options: Of the cases; with `quick` and no names the speed test alone.
        report: Gets a line after each case, and after each switch, model and part.

    Raises:
        SettingsError: There is no such case, or an option is impossible.
    """
    found: list[Row] = []
    for row in measured(cases, options=options):
        if found[1:] and row["case"] != found[-1]["case"]:
            report(f"{found[-1]['case']} measured")
        found.append(plain_row(row))
        if "switch" in row or "model" in row:  # each takes minutes
            report(f"{row.get('switch') or row['model']} measured")
        if "part" in row:
            report(f"{row['part']}: {row['state']}")
    if found[1:]:
        report(f"{found[-1]['case']} measured")
    return found


def plain_row(row: Row) -> Row:
    """A row as plain data in English."""
    return {
        name: str(value) if isinstance(value, Message) else value for name, value in row.items()
    }


def measured(
    cases: Sequence[str], *, options: BenchOptions | None = None
) -> Generator[Row, None, None]:
    """Rows as they are measured; the first one describes the machine.

    Raises:
        SettingsError: As `run`, before the first row.
    """
    options = options or BenchOptions()
    names = case_names(cases, options)
    check(options)
    threads = torch.get_num_threads()
    torch.set_num_threads(options.threads or devices.cpu_threads())
    try:
        with torch_memory.selected(options.device):
            yield machine_row()
            for name in names:
                for row in _without_gradients(CASES[name], options):
                    yield {"case": name, **row}
    finally:
        torch.set_num_threads(threads)


def _without_gradients(case: BenchCase, options: BenchOptions) -> Iterator[Row]:
    """Rows measured in torch's inference mode; the caller is not in it between them."""
    with torch.inference_mode():
        rows = case.rows(options)
    while True:
        with torch.inference_mode():
            row = next(rows, None)
        if row is None:
            return
        yield row


def case_names(cases: Sequence[str], options: BenchOptions) -> tuple[str, ...]:
    """Cases to measure, each once; the group "vae" with a clip is the round trip."""
    unknown = [name for name in cases if name not in CASES and name not in GROUPS]
    if unknown:
        raise SettingsError("unknown-case", name=unknown[0], known=(*CASES, *GROUPS))
    groups = GROUPS | ({"vae": ("round-trip",)} if options.clip is not None else {})
    names = cases or [
        name
        for name, case in CASES.items()
        if (case.is_quick if options.quick else case.is_default)
    ]
    return tuple(dict.fromkeys(one for name in names for one in groups.get(name, (name,))))
