"""A page of claims about optimisations, the features of Upreel and the measured effects.

`python -m tools.reports.claims > docs/claims.md` writes it, from `resources/claims.toml`, the
figures of `bench optimisations --json` or `measure` in docs/benchmarks
(optimisations-*.json, first-contact-*.json), and the counts of `tests.pretended_gpu.published` and
`published_switches`. Nothing is measured for it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from engine.bench.report import (
    MACHINE,
    Claim,
    ClaimState,
    Row,
    claims,
    figures_text,
    is_switch,
    machine_of,
    measured,
    piped,
    state_of,
    why_not,
)
from engine.core.messages import hint_of, message, text_of, title
from engine.hardware import gpu_table
from engine.hardware.gpu_table import CAPABILITIES
from engine.models.contracts import StageWork
from engine.models.gpu_passes import Passes
from engine.models.seedvr2.dit.config import DIT_3B
from engine.models.seedvr2.dit.cost import DitUse, forward_passes
from engine.planner.gpu_speed import LAUNCH_S, compute_seconds
from engine.protocol.report import MeasuredSwitch
from engine.settings.optimisations import SwitchEntry, choices, optimisations
from engine.settings.requirements import CUDA, Requirement
from tests.pretended_gpu import published
from tests.pretended_gpu.published_switches import SwitchCount, known

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "claims.md"
FIGURES = ROOT / "docs" / "benchmarks"
_FILES = ("optimisations-*.json", "first-contact-*.json")
H100 = "NVIDIA H100, torch 2.11.0+cu130 (docs/benchmarks/h100.md)"
NOT_MEASURED = "not measured"
NOTHING = "nothing to measure"
_GRAPH_GPUS = ("RTX 5070 Ti", "RTX 5090")
_GRAPH_STEPS = {  # by their names in the counts
    "decode 720p": "decoder, a slice of 4 frames of 720p",
    "decode, kernel 720p": "the same with our kernel of convolutions",
    "decode 256 px": "decoder, a slice of 4 frames of a tile of 256 px",
    "decode, kernel 256 px": "the same with our kernel of convolutions",
    "3B 720p, 5 frames": "transformer 3B, 5 frames of 720p (7,200 tokens)",
    "3B 720p": "transformer 3B, 21 frames of 720p",
}

_HEAD = """# Claims about optimisations, and what was measured

Guides for SeedVR2 and for the VAEs of Wan on Windows make many claims. This page lists each claim,
the corresponding feature of Upreel, and the measured effect. It is written by
`python -m tools.reports.claims > docs/claims.md`, and a test compares it. The window shows the same
list: the full table of the speed test, which can be filtered.

The state of a claim is the same word everywhere: **met**, **met in part** and **not met** are
measured, or counted where the claim is about memory or operations; **met in part** means one of two
promised effects, or one of two models. **Unconfirmed** claims were neither measured nor can a count
decide them: a part that was measured alone, such as one kernel, does not confirm what is claimed of
the whole. **Not used** is what Upreel does without, for the reason given. No claim was measured on
an RTX GPU; what a CPU met is met there only, as the words say.

States {counts}.

A test derives each figure under "what is known" from the figures of the row, from those of other
pages, or from the counts of the pretended GPU. Upreel's own promises are elsewhere:
`tests/evidence.toml` names the tests of every statement of README, manual and
[python.md](python.md), and tests change each setting and each switch alone and look for its effect.

A ratio is the value with the switch divided by the value without it, with all other switches at
their defaults; below 1 the switch helps. ± is the standard error.
[benchmarks/README.md](benchmarks/README.md) explains how ratios are measured and where they do not
apply: weights are random, and the models for CPUs are small. On a GPU, `bench optimisations`
measures the rows that need one. The run on a CPU shared its computer with other work; therefore its
ratios are ratios of CPU seconds, except for the seconds of compiling, which are elapsed time.
The pretended GPU counts launches, bytes and operations at a published size, without and with the
switch, and measures no time
([benchmarks/pretended-gpu-switches.md](benchmarks/pretended-gpu-switches.md)). "Not counted" means
that the row is no switch of decoder or transformer.
"""

_GRAPHS = """## CUDA graphs

A graph launches many kernels at once, so it saves time of the host. Capture by hand with static,
planned buffers is possible; what decides is arithmetic. A launch takes the host {launch:.0f} µs
(from a forward pass that waited for the host of the H100, [predictions.md](predictions.md)). The
host is ahead of the GPU, so its time counts only where it exceeds the GPU's, as on the H100 for a
forward pass of 7,200 tokens, which took 0.073 s with about {then:,} launches
([benchmarks/h100.md](benchmarks/h100.md)). Launches are counted, seconds of RTX GPUs are
predicted; the percentage is the host's time divided by the GPU's: below 100 % a graph saves
nothing. `measure` times launches on a PC.
"""

_GENERATIONS = """## Recommended set for each GPU generation

The recommended set is the default of a generation: every exact optimisation that has an effect
there. Everything else that such a GPU supports, partly with third-party packages, is off for the
reason given. RTX 50 differs from RTX 40 only in FP4: with fp8 or Q4_K_M files both run the same
set, and FP4 stays off until a measurement on a GPU shows its gain and its loss. Groups:
`--set switches=all=off` turns every optimisation off, `all=on` turns on all that work, `exact`
computes as the published programs do, `fp4` uses FP4 for matrix products and attention.
"""


@dataclass(frozen=True, slots=True)
class MeasuredMachine:
    """One run of the benchmark.

    Attributes:
        facts: Facts of the computer: "processor", "card" ("none" without a GPU), "torch".
        lines: Measured optimisations by name.
    """

    facts: Mapping[str, str]
    lines: Mapping[str, MeasuredSwitch]

    @property
    def has_gpu(self) -> bool:
        """Whether a GPU was measured."""
        return self.facts["card"] != "none"

    @property
    def title(self) -> str:
        """Heading of its column."""
        name = self.facts["card"] if self.has_gpu else self.facts["processor"]
        return f"{name}, torch {self.facts['torch'].removeprefix('torch ')}"


def machines(folder: Path = FIGURES) -> list[MeasuredMachine]:
    """Runs whose figures are in a folder, those of CPUs first."""
    paths = (path for kind in _FILES for path in sorted(folder.glob(kind)))
    return sorted(map(_machine, paths), key=lambda one: one.has_gpu)


def _machine(path: Path) -> MeasuredMachine:
    rows = _rows(json.loads(path.read_text("utf-8")))
    facts = {"card": "none", **machine_of([row for row in rows if row["case"] == MACHINE])}
    return MeasuredMachine(facts, {line.name: line for line in measured(rows)})


def _rows(data: dict[str, Any]) -> list[Row]:
    """Rows of `bench --json`, or of the file of a first contact."""
    if "results" in data:
        return list(data["results"])
    answers = data["answers"].values()
    return [data["basis"]["machine"], *(row for one in answers for row in one["rows"])]


def page(found: Sequence[MeasuredMachine], counts: Mapping[str, SwitchCount]) -> str:
    """The page: a table with a line for each claim, then the sets of the generations."""
    heads = (*(one.title for one in found), H100, "counted on the pretended GPU")
    grid = [
        ("claim", "source", "state", "what is known", "in Upreel", *heads),
        *(
            (
                _promise(name),
                claim.source,
                text_of(state_of(claim)),
                claim.words,
                _parts(name, claim),
                *(_figures(claim, machine) for machine in found),
                claim.on_gpu or (NOT_MEASURED if claim.rows else NOTHING),
                _counted(claim, counts),
            )
            for name, claim in claims().items()
        ),
    ]
    head = _HEAD.format(counts=_state_counts())
    then = round(_passes(published.SHORT_CLIP).launches)
    graphs = _GRAPHS.format(launch=LAUNCH_S * 1e6, then=then)
    generations = [_GENERATIONS, *piped(_generations()), ""]
    return "\n".join([head, *piped(grid), "", graphs, *piped(_graphs()), "", *generations])


def _state_counts() -> str:
    """Number of claims, of all and in each state: "of 10 claims: 4 met, 6 unconfirmed"."""
    count = Counter(claim.state for claim in claims().values())
    texts = {state: text_of(message(f"claim-state.{state}")) for state in get_args(ClaimState)}
    numbers = (f"{count[state]} {text}" for state, text in texts.items())
    return f"of {count.total()} claims: {', '.join(numbers)}"


def host_shares(step: str) -> tuple[float, ...]:
    """Time of the host for the launches of a step, divided by that of each GPU of the table."""
    host = LAUNCH_S * published.known()[0][step].launches
    return tuple(host / seconds for seconds in _gpu_seconds(step))


def _graphs() -> list[tuple[str, ...]]:
    """A row for each step, under its head."""
    rows = [("step", "launches", "TFLOP", "host", *_GRAPH_GPUS)]
    for step, what in _GRAPH_STEPS.items():
        count = published.known()[0][step]
        pairs = zip(_gpu_seconds(step), host_shares(step), strict=True)
        cells = [f"{seconds * 1e3:.0f} ms: {share:.1%}" for seconds, share in pairs]
        host = f"{LAUNCH_S * count.launches * 1e3:.0f} ms"
        rows.append((what, f"{count.launches:,}", f"{count.teraflops:.1f}", host, *cells))
    return rows


def _gpu_seconds(step: str) -> Iterator[float]:
    """Predicted seconds of a step on each GPU, without its launches."""
    count, is_vae = published.known()[0][step], step.startswith("decode")
    operations, passed = count.teraflops * 1e12, count.besides * 1e9
    if not is_vae:
        passed = _passes(published.SHORT_CLIP if "5 frames" in step else published.CLIP).moved
    work = StageWork(
        kind="vae" if is_vae else "transformer",
        dtype="float16" if is_vae else "bfloat16",
        operations=operations,
        products=0.0 if is_vae else operations,
        passed_bytes=passed,
    )
    for name in _GRAPH_GPUS:
        yield compute_seconds(gpu_table.named(name), work)


def _passes(clip: int) -> Passes:
    """Passes of a forward of the 3B for a clip of 720p, its length in latents."""
    size = published.SIZES["720p"]
    grid = clip, size.height // 8, size.width // 8
    return forward_passes(DIT_3B, grid, DitUse(dtype="bfloat16"))


def _generations() -> list[tuple[str, ...]]:
    """A row for each generation of GPUs, under its head."""
    rows = [("generation", "on by default", "optional, and why it is off")]
    for generation, capability in CAPABILITIES.items():
        entries = [one for one in optimisations() if _suits(one.needs, capability)]
        usual = [one.key for one in entries if one.default]
        off = [f"`{one.key}` ({_reason(one)})" for one in entries if not one.default]
        for one in choices():
            others = [v for v, needs in one.values.items() if _suits(needs, capability)]
            others.remove(one.default)
            off.append(f"`{one.key}` {', '.join(others)} ({_reason(one)})")
        rows.append((generation, ", ".join(f"`{key}`" for key in usual), "; ".join(off)))
    return rows


def _suits(needs: Requirement, capability: tuple[int, int]) -> bool:
    """Whether a GPU supports it, whatever system and packages it needs in addition."""
    return CUDA in needs.devices and (needs.capability or (0, 0)) <= capability


def _reason(entry: SwitchEntry) -> str:
    return hint_of(message(entry.code)).removeprefix("Off: ").rstrip(".")


def _promise(name: str) -> str:
    code = f"claim.{name}"
    return f"**{text_of(title(code))}**: {text_of(message(code))}"


def _parts(name: str, claim: Claim) -> str:
    """Switches, settings and modules, the reason for their absence, or both."""
    names = [*filter(is_switch, claim.rows), *claim.settings, *claim.modules]
    return "; ".join(filter(None, (", ".join(f"`{one}`" for one in names), why_not(name))))


def _figures(claim: Claim, machine: MeasuredMachine) -> str:
    """Figures of one computer for a claim; those of other pages are for a CPU."""
    if not claim.rows and not claim.measured:
        return NOTHING
    cells = [figures_text(machine.lines[row]) for row in claim.rows if row in machine.lines]
    if not machine.has_gpu and claim.measured:
        cells.append(claim.measured)
    return _joined(cells) or NOT_MEASURED


def _counted(claim: Claim, counts: Mapping[str, SwitchCount]) -> str:
    """Counts of the pretended GPU for a claim."""
    cells = [_count(row, counts[row]) for row in claim.rows if row in counts]
    return _joined(cells) or ("not counted" if claim.rows else "nothing to count")


def _count(row: str, count: SwitchCount) -> str:
    on, off = count.on, count.off
    pairs = (
        ("launches", f"{off.launches:,}", f"{on.launches:,}"),
        ("GB", f"{off.gigabytes:.1f}", f"{on.gigabytes:.1f}"),
        ("TFLOP", f"{off.teraflops:.1f}", f"{on.teraflops:.1f}"),
        ("peak GiB", f"{off.peak_gib:.2f}", f"{on.peak_gib:.2f}"),
    )
    changes = [
        f"{without} → {with_it} {unit}" for unit, without, with_it in pairs if without != with_it
    ]
    return f"{row}, {count.step}: {', '.join(changes) or 'no change'}"


def _joined(cells: Iterable[str]) -> str:
    return "; ".join(cells)


def main() -> None:
    """Print the page."""
    print(page(machines(), known()), end="")


if __name__ == "__main__":
    main()
