"""A page of measurements with other programs next to predictions for the same work.

`python -m tools.reports.predictions > docs/predictions.md` writes it. This machine has no
influence on it: neither its GPU nor its model files nor measured rates.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from engine.core.units import range_text
from engine.planner import gpu_speed, times
from tools.reports.plan_table import RAM_GIB, SHARE, write_page
from tools.reports.user_runs import (
    BEFORE,
    H100_FORMATS,
    H100_TIMES,
    Comparison,
    comparisons,
    h100_forward,
    h100_seconds,
    held,
)

_HEAD = f"""# Predicted times compared with measurements by users of other programs

This page is written by `python -m tools.reports.predictions > docs/predictions.md` from
`tools/reports/user_measurements.toml`, and a test compares it. Reported times are those of **other
programs** with SeedVR2, published by their users. Predicted times come from Upreel's plan for the
same video, model, GPU and RAM ({RAM_GIB} GB if the source does not state it, of which a job may use
{SHARE:.0%}), without installed model files and without measurements. **Upreel has not run on any of
these GPUs yet.**

- **predicted / reported**: below 1 if Upreel is expected to be faster.
- **before**: the same of an earlier version, whose shares were fitted to half of these reports.
- **with our kernel**: the prediction, if convolutions were computed by our kernel (see below). No
  plan counts it.
- **operations**: operations of our plan, divided by those of the reported run (the published data
  flow without folds, in the batches of that run, overlaps of tiles computed twice).
- **scaled**: predicted / reported, divided by operations. 1 means that the prediction is shorter
  only by the work that is saved; below 1 Upreel is also expected to do as many operations faster.
- **pace**: operations of the reported run, divided by the theoretical maximum of the GPU's matrix
  units in that time (half precision, sums in float32).
- **use**: no run is fitted to. Runs marked *check* have to lie in the range of times. The others do
  not show how fast a GPU computes; they were excluded because of what their sources say:
"""
_OUTLIERS = {
    "first version": "the first version of the node, of June 2025, which its authors fixed later",
    "power": "the power of the GPU was limited, the source does not say to which value",
    "still": "a single frame: most of the time is spent on loading and moving the model",
}
_PARTS = """## Shares

The seconds of a GPU are those of convolutions and of matrix products, by their operations, and of
passes over values, by their bytes; a stage takes at least as long as the host needs for its
launches. Operations, bytes and launches are counted: the program runs on tensors without values and
on a pretended GPU, with each switch on and off; [switches.md](switches.md) has what follows. Each
kind of work reaches a share of the GPU's theoretical maximum. These shares were fixed from the
sources below before any ratio of the table above was computed with them, and no ratio is aimed at.

| kind of work | share | source |
|---|---:|---|"""
_SHARE_SOURCES = {
    "convolutions": (
        "convolutions by cuDNN, of the matrix units",
        "one public log: a similar VAE on an RTX 5090, with passes fused "
        "(Comfy-Org/comfy-kitchen#167), works out at 79 %. On the H100 they run at the rate of "
        "large products. No log of Turing, Ampere or Ada was found; cuDNN uses the same "
        "instructions on the last two",
    ),
    "products": (
        "matrix products, of the matrix units",
        "public logs of products of 8192x8192 in float16, zzc0721/torch-performance-test-data: RTX "
        "5090 0.82, 1.07, 1.07, 1.12 (#200, #15, #124, #96), 5070 Ti 0.96, 1.07 (#172, #86), 5060 "
        "Ti 0.99, 1.06 (#134, #163), 4090 0.94 (#78), 3080 Ti 1.02 (#132), 3070 Ti 1.05 (#184): "
        "the lower quarter. Above 1 the clock is higher than the specified one",
    ),
    "single_head": (
        "attention of the VAE, one head of 512 channels, of the matrix units",
        "[H100](benchmarks/h100.md): 4.5 % of 0.173 s for 0.85 TFLOP, 0.16 of what a large product "
        "reached there",
    ),
    "bandwidth": (
        "passes, of the memory's bandwidth",
        "[H100](benchmarks/h100.md): a copy reached 3.0 of 3.35 TB/s, passes of ours 0.66 to 1.0 "
        "of a copy; norms, which move most, 0.72",
    ),
}
_OTHER_SOURCES = """
- **Turing** is counted with {turing:.2f} of these shares of its matrix units: a TITAN RTX reached
  0.83 in the same product (zzc0721/torch-performance-test-data#127).
- **A launch** takes the host {launch:.0f} µs: a forward of the 3B in fp8, which waited for the host
  of the H100, took 0.152 s for about 2,720.
- **Narrow formats**: GeForce GPUs multiply {int8:g} times as many values in int8, {fp8:g} times as
  many in fp8 and {nvfp4:g} times as many in nvfp4 as in half precision with sums in float32 (white
  papers), workstation GPUs half of that. Of that rate int8 is counted with {int8_share:.2f} and fp8
  with {fp8_share:.2f}: on the H100 the product of a layer from 2560 to 13,824 took 0.65 ms in
  bfloat16, 0.71 ms in int8 and, rounding taken off by its bytes, 0.37 ms in fp8. No GPU has
  multiplied nvfp4 for Upreel: it counts with the lower share of the two. The range reaches from no
  gain to all of the rate.
- **Attention** by another backend than torch's own choice is counted as the H100 took it: flash
  {flash:.2f} times as fast, efficient {efficient:.2f}, math {math:.3f}. Packages (SageAttention,
  flash-attn 3) were not timed: they count as fast as what they replace, flash-attn 2 and xformers
  as torch's flash attention, and the range has the rest.
- **All parts together** count {uncounted:g} times, by what the H100 took:

| part | frames | size | counted, s | measured, s | counted / measured |
|---|---:|---|---:|---:|---:|"""
_AFTER_PARTS = """
There large products reached 0.67 of the maximum, and so did convolutions; that GPU is counted with
0.67, 0.67, 0.11 and 0.7. It does not show what an RTX GPU reaches, but that the counted parts are
nearly all there is."""
_KERNEL = """## Our kernel

GPUs of the GeForce series multiply half precision at twice the rate if sums are kept in float16.
Upreel has a kernel for convolutions that keeps sums of 128 products (RTX 20: 32) in float16 and
adds them up in float32 (`vae.fp16_sums`); cuDNN cannot be asked for that. It is **calculated** that
it computes convolutions {times:g} times as fast: it has run on no GPU, and gains nothing on
data-centre and workstation GPUs with the full rate. A trial on the user's GPU chooses between it
and cuDNN.

Predicted times are those of cuDNN until something was measured on the GPU itself: a plan must not
promise a speed that no GPU has shown. The speed test and the first finished job include the kernel
where the trial chose it, so from then on it is in the prediction. Until then the lower end of the
range is the time with it: the column *with our kernel* is {low:.2f} to {high:.2f} times the
predicted seconds of the runs marked *check*. Products of transformers in float16 (RTX 20,
`dit.fp16_sums`) count in the same way, with the bytes of bringing their weights into the kernel's
order. The kernel for attention with one head is not counted either.
"""
_LEFT_OUT = """Row numbers refer to a list of 35 reports. The missing ones do not state the GPU,
the size or the number of frames (5, 16, 22, 24 to 27, 29 to 31, 33), concern a GPU generation for
which Upreel has no figures (15, 28), or concern other models (34, 35)."""


def page() -> Iterator[str]:
    """The page line by line."""
    some = comparisons()
    yield from _HEAD.splitlines()
    yield from (f"  - *{name}*: {why}." for name, why in _OUTLIERS.items())
    yield ""
    yield from _runs_table(some)
    yield ""
    yield from _share_section()
    yield from _kernel_section(some)
    yield from _range_section(some)
    yield from _sources_section(some)


def _runs_table(some: Sequence[Comparison]) -> Iterator[str]:
    yield (
        "| row | GPU | model | result | frames | reported, s | predicted, s | range "
        "| predicted / reported | before | with our kernel, s | with our kernel / reported "
        "| operations | scaled | pace | use |"
    )
    yield f"|---|---|---|---|{'---:|' * 11}---|"
    for one, before in zip(some, BEFORE, strict=True):
        run, plan = one.run, one.plan
        times_s = (_seconds(seconds) for seconds in (run.seconds, plan.seconds - one.before))
        cells = (
            *(str(run.row), one.gpu.title, run.model.removeprefix("seedvr2-"), str(run.size)),
            *(str(run.frames), *times_s),
            range_text(plan.seconds_low - one.before, plan.seconds_high - one.before),
            *(f"{one.ratio:.2f}", f"{before:.2f}"),
            *_with_kernel(one),
            *(f"{value:.2f}" for value in (one.work, one.scaled, one.pace)),
            one.use,
        )
        yield f"| {' | '.join(cells)} |"


def _seconds(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _with_kernel(one: Comparison) -> tuple[str, str]:
    seconds = one.kernel_seconds
    return (
        ("-", "-") if seconds is None else (_seconds(seconds), f"{seconds / one.run.seconds:.2f}")
    )


def _share_section() -> Iterator[str]:
    yield from _PARTS.splitlines()
    for name, (what, source) in _SHARE_SOURCES.items():
        yield f"| {what} | {getattr(gpu_speed.SHARES, name):.2f} | {source} |"
    facts = {
        "turing": gpu_speed.OF_GENERATION["turing"],
        "launch": 1e6 * gpu_speed.LAUNCH_S,
        "uncounted": gpu_speed.UNCOUNTED,
        **{kind: rate for kind, (rate, _) in gpu_speed.FORMAT_RATES.items()},
        **{f"{kind}_share": share for kind, share in gpu_speed.FORMAT_SHARES.items()},
        **{name: pace.likely for name, pace in gpu_speed.ATTENTION.items()},
    }
    yield from _OTHER_SOURCES.format(**facts).splitlines()
    for part, frames, size, seconds in H100_TIMES:
        counted = h100_seconds(part, frames, size)
        cells = f"{counted:.3g} | {seconds:.3g} | {counted / seconds:.2f}"
        yield f"| {part} | {frames} | {size} | {cells} |"
    for products, seconds in H100_FORMATS.items():
        if products != "none":
            counted = h100_forward(products)
            cells = f"{counted:.3g} | {seconds:.3g} | {counted / seconds:.2f}"
            yield f"| 3B, {products}: launches | 5 | 1280x720 | {cells} |"
    yield from _AFTER_PARTS.splitlines()
    yield ""


def _kernel_section(some: Sequence[Comparison]) -> Iterator[str]:
    found = [
        one.kernel_seconds / (one.plan.seconds - one.before)
        for one in some
        if one.kernel_seconds is not None and one.use == "check"
    ]
    gain = gpu_speed.HALF_SUMS.best
    yield from _KERNEL.format(times=gain, low=min(found), high=max(found)).splitlines()
    yield ""


def _range_section(some: Sequence[Comparison]) -> Iterator[str]:
    spread, plain = times.GUESSED_GPU, [one for one in some if not one.run.outlier]
    outside = [str(one.run.row) for one in some if not one.is_held]
    ratios, kernels = (
        [one.ratio for one in plain],
        [one.kernel_seconds / one.run.seconds for one in plain if one.kernel_seconds is not None],
    )
    slowest = max(1 / one.scaled for one in plain)
    yield "## Ranges"
    yield ""
    yield (
        f"The median of predicted / reported of the {len(plain)} runs marked *check* is "
        f"**{statistics.median(ratios):.2f}**, with our kernel "
        f"**{statistics.median(kernels):.2f}**. As long as nothing was measured on a GPU, its time "
        f"is shown as a range from {spread.low:g} to {spread.high:g} times the predicted time, the "
        "lower end of the time in the best case and the upper one of that in the worst: with our "
        "kernel, and with narrow formats at all of their rate or without any gain. "
        f"{spread.low:g} is the tenth by which counted and "
        "measured times of the H100 differ. The upper end holds the slowest of these runs, scaled "
        f"by operations: {slowest:.1f} times the predicted time, on a GPU of 8 GB with swapped "
        "blocks; a GPU of a user may be as short of memory, or throttled. The reported times, "
        f"scaled by operations, lie in this range for {held(plain)} of {len(plain)} runs marked "
        f"*check*, and for **{held(some)} of all {len(some)}**; those of rows "
        f"{', '.join(outside)} do not."
    )
    yield ""


def _sources_section(some: Sequence[Comparison]) -> Iterator[str]:
    yield "## Sources"
    yield ""
    yield _LEFT_OUT
    yield ""
    yield "| row | source | settings | assumed |"
    yield "|---|---|---|---|"
    for run in (one.run for one in some):
        tiles = f", tiles of {run.tile} px sharing {run.overlap}" if run.tile else ""
        settings = f"{run.precision}, batches of {run.batch}{tiles}, from {run.source_size}"
        yield f"| {run.row} | {run.source} | {settings} | {run.assumed} |"


if __name__ == "__main__":
    write_page(page())
