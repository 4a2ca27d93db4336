"""Cases of the benchmark, their options, and what measures them. Loads without torch.

A module of cases is loaded when one of its cases runs: models can be measured without PyAV.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from engine.bench.report import Row, machine_row
from engine.core.errors import SettingsError
from engine.core.geometry import Size
from engine.core.messages import Message
from engine.hardware import devices, torch_memory
from engine.models import registry
from engine.models.contracts import BenchRequest
from engine.models.video_vae.measured_memory import VaeModel
from engine.settings.optimisations import (
    ALL,
    EXACT,
    DitSwitches,
    VaeSwitches,
    model_switch_names,
)

DTYPES = ("float32", "float16", "bfloat16", "float64")


@cache
def vae_models() -> dict[str, VaeModel]:
    """Every VAE that a family offers, by its id."""
    return {vae.id: vae for family in registry.families() for vae in family.vaes()}


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """Choices of the user; None: the case takes what suits the device."""

    quick: bool = False  # fewer runs and smaller frames
    size: Size | None = None  # size of a frame
    frames: tuple[int, ...] = ()  # lengths of clips, each measured; none: those of the case
    dtype: str | None = None
    runs: int | None = None  # runs of each piece of work; the median counts
    threads: int | None = None  # CPU threads; None: all that this process may use
    device: str = "auto"  # value of the setting; "auto": a GPU where torch can use one
    form: Literal["plain", "fast", "both"] = "both"
    without: tuple[str, ...] = ()  # optimisations or groups: the fast variant without each, too
    only: tuple[str, ...] = ()  # and with each of these alone; "exact": without any
    memory: bool = True  # measure the peak of main memory too, in processes of their own
    calibrate: bool = True  # measure the peak rates of the device, and compare with public figures
    model: str = "seedvr2-vae"  # id of the VAE
    clip: Path | None = None  # video for `round-trip`, or the source for `flicker`
    result: Path | None = None  # result of that source, for `flicker`
    vae: Path | None = None  # weights file for `round-trip`; None: the published one
    random_weights: bool = False  # instead of a file
    config: Any = None  # sizes of the VAE; None: the published ones
    dit: Any = None  # sizes of the transformer; None: those that suit case and device

    @property
    def vae_model(self) -> VaeModel:
        """The VAE that is measured."""
        return vae_models()[self.model]

    @property
    def vae_config(self) -> Any:
        """Sizes of the VAE."""
        return self.config or self.vae_model.config

    def request(self, device: str) -> BenchRequest:
        """Request to the models of any family."""
        return BenchRequest(
            device=device,
            dtype=self.dtype,
            size=self.size,
            threads=self.threads or devices.cpu_threads(),
            quick=self.quick,
        )

    def rounds(self, usual: int, on_gpu: int | None = None, *, device: str = "cpu") -> int:
        """Runs of a piece of work: one with `quick`, unless the user chose a number."""
        most = on_gpu if on_gpu is not None and device == "cuda" else usual
        return self.runs or (1 if self.quick else most)

    def check(self) -> None:
        """Refuse names that do not exist, and impossible sizes and lengths."""
        for given, groups in ((self.without, (ALL,)), (self.only, (ALL, EXACT))):
            for name in given:  # with or without its group: "upsampler_fold", "vae.upsampler_fold"
                bare = (*VaeSwitches.known((name,)), *DitSwitches.known((name,)))
                _check_name("optimisation", (bare or (name,))[0], (*model_switch_names(), *groups))
        devices.named(self.device, devices.gpus())
        if self.dtype is not None:
            _check_name("dtype", self.dtype, DTYPES)
        _check_name("vae", self.model, tuple(vae_models()))
        factor, step, size = (
            self.vae_config.spatial_factor,
            self.vae_config.temporal_factor,
            self.size,
        )
        if size is not None and (size.is_empty or size.width % factor or size.height % factor):
            raise SettingsError("not-encodable", size=size, factor=factor)
        for frames in self.frames:
            if frames < 1 or (frames - 1) % step:
                lengths = ", ".join(str(1 + step * n) for n in range(3))
                raise SettingsError("not-a-clip-length", frames=frames, lengths=lengths)
        for name, count in (("threads", self.threads), ("runs", self.runs)):
            if count is not None and count < 1:
                raise SettingsError("less-than-one", name=name)


def _check_name(kind: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise SettingsError(f"unknown-{kind}", name=name, known=known)


@dataclass(frozen=True, slots=True)
class BenchCase:
    """Case of the benchmark: a function that yields a row for each measurement."""

    function: str  # module and function in `engine.bench`; takes BenchOptions
    argument: str = ""  # second argument of the function; "" where it has none
    is_default: bool = False  # measured when no case is named
    is_quick: bool = False  # measured with --quick when no case is named

    def rows(self, options: BenchOptions) -> Iterator[Row]:
        """Load the case and begin to measure."""
        module, _, name = self.function.partition(":")
        function = getattr(import_module(f"engine.bench.{module}"), name)
        rows: Iterator[Row] = function(options, *filter(None, [self.argument]))
        return rows


CASES: dict[str, BenchCase] = {
    "speed": BenchCase("calibration:speed_rows", is_default=True, is_quick=True),
    "lite": BenchCase("cases.video:lite_rows", is_default=True),
    "pipeline": BenchCase("cases.video:pipeline_rows", is_default=True),
    "colour": BenchCase("cases.video:colour_rows", is_default=True),
    "read": BenchCase("cases.video:read_rows", is_default=True),
    "write": BenchCase("cases.video:write_rows", is_default=True),
    "vae-encode": BenchCase("cases.vae:vae_rows", "encode"),
    "vae-decode": BenchCase("cases.vae:vae_rows", "decode"),
    "vae-parts": BenchCase("cases.vae:part_rows"),
    "round-trip": BenchCase("cases.vae:round_trip_rows"),
    "dit-3b": BenchCase("cases.transformer:dit_rows", "3b"),
    "dit-7b": BenchCase("cases.transformer:dit_rows", "7b"),
    "seedvr2": BenchCase("cases.seedvr2:seedvr2_rows"),
    "optimisations-vae": BenchCase("cases.switches:vae_switch_rows"),
    "optimisations-dit": BenchCase("cases.switches:dit_switch_rows"),
    "optimisations-around": BenchCase("cases.switches:other_switch_rows"),
    "optimisations-claims": BenchCase("cases.switches:claim_rows"),
    "models": BenchCase("cases.models:model_rows"),
    "community": BenchCase("cases.models:community_rows"),
    "kernels": BenchCase("cases.operators:kernel_rows"),
    "attention": BenchCase("cases.operators:attention_rows"),
    "convolutions": BenchCase("cases.convolutions:convolution_rows"),
    "products": BenchCase("cases.operators:matmul_rows"),
    "layer-products": BenchCase("cases.operators:layer_product_rows"),
    "formats-3b": BenchCase("cases.transformer:format_rows", "3b"),
    "formats-7b": BenchCase("cases.transformer:format_rows", "7b"),
    "streaming": BenchCase("cases.transformer:streaming_rows"),
    "launches": BenchCase("cases.transformer:launch_rows"),
    "seedvr2-job": BenchCase("cases.video:seedvr2_job_rows"),
    "workers": BenchCase("cases.workers:worker_rows"),
    "farm": BenchCase("cases.farm:farm_rows"),
    "flicker": BenchCase("cases.video:flicker_rows"),
    "streams": BenchCase("cases.video:stream_rows"),
    "facts": BenchCase("cases.device:fact_rows"),
    "kernel-errors": BenchCase("cases.device:kernel_error_rows"),
    "memory-pressure": BenchCase("cases.device:pressure_rows"),
    "gpu-tests": BenchCase("cases.device:gpu_test_rows"),
}
GROUPS = {
    "vae": ("vae-encode", "vae-decode", "vae-parts"),
    "dit": ("dit-3b", "dit-7b"),
    "formats": ("formats-3b", "formats-7b"),
    "optimisations": tuple(f"optimisations-{of}" for of in ("vae", "dit", "around", "claims")),
}


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


def measured(
    cases: Sequence[str], *, options: BenchOptions | None = None
) -> Generator[Row, None, None]:
    """Rows as they are measured; the first one describes the computer.

    Impossible names and options are refused before the first row.
    """
    import torch

    options = options or BenchOptions()
    names = case_names(cases, options)
    options.check()
    threads = torch.get_num_threads()
    torch.set_num_threads(options.threads or devices.cpu_threads())
    try:
        with torch_memory.selected(options.device):
            yield machine_row()
            for name in names:
                with torch.inference_mode():
                    rows = CASES[name].rows(options)
                while True:
                    with torch.inference_mode():  # the caller is not in it between two rows
                        row = next(rows, None)
                    if row is None:
                        break
                    yield {"case": name, **row}
    finally:
        torch.set_num_threads(threads)


def run(
    cases: Sequence[str],
    *,
    options: BenchOptions | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> list[Row]:
    """Measure some cases; rows are plain data in English.

    Args:
        cases: Names of cases and groups; the default cases where none is named.
        options: Choices of the user; with `quick` and no names the speed test alone.
        report: Gets a line after each case, and after each switch, model and part.
    """
    found: list[Row] = []
    for row in measured(cases, options=options):
        if found[1:] and row["case"] != found[-1]["case"]:
            report(f"{found[-1]['case']} measured")
        found.append(plain_row(row))
        if "switch" in row or "model" in row:  # each takes minutes
            report(f"{row.get('switch') or row['model']} measured")
    if found[1:]:
        report(f"{found[-1]['case']} measured")
    return found


def plain_row(row: Row) -> Row:
    """A row as plain data in English."""
    return {
        name: str(value) if isinstance(value, Message) else value for name, value in row.items()
    }
