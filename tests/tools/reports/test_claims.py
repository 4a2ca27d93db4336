import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import get_args

import pytest

import engine
from engine.bench.chart import svg_of
from engine.bench.report import (
    Claim,
    ClaimState,
    claim_of,
    claims,
    is_switch,
    markdown,
    why_not,
)
from engine.core.messages import message, text_of
from engine.planner.gpu_speed import LAUNCH_S
from engine.settings.optimisations import choices, optimisations
from tests.helpers.clips import make_clip
from tests.pretended_gpu.published_switches import known
from tools.reports.claims import H100, PAGE, ROOT, MeasuredMachine, host_shares, machines, page


def cells(text: str) -> list[list[str]]:
    """Cells of each row of the page's first table, the head and its line left out."""
    table = text.partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


@cache
def written() -> str:
    """The page as the command writes it."""
    return page(machines(), known())


def test_the_page_is_what_the_command_writes() -> None:
    assert PAGE.read_text("utf-8") == written()


def test_every_claim_has_a_row_without_an_empty_cell() -> None:
    rows = cells(written())
    assert len(rows) == len(claims())
    for row in rows:
        assert len(row) == len(rows[0])
        assert all(row), row


def test_each_generation_has_a_reason_for_what_is_off() -> None:
    text = written().partition("\n## ")[2]
    rows = {row.split("|")[1].strip(): row for row in text.splitlines() if row.startswith("| ")}
    assert {"turing", "ampere", "ada", "blackwell"} <= set(rows)
    assert "nvfp4" in rows["blackwell"]
    assert "nvfp4" not in rows["ada"]
    on = {name: row.split("|")[2] for name, row in rows.items()}
    assert on["ada"] == on["blackwell"]
    assert "`run.tf32` (float32 is chosen" in rows["ampere"]
    assert "`run.tf32`" not in rows["turing"]
    assert "()" not in text


def test_every_row_of_a_claim_was_measured_or_says_what_it_needs() -> None:
    processor = machines()[0]
    assert not processor.has_gpu
    for name, claim in claims().items():
        for row in claim.rows:
            line = processor.lines[row]
            assert line.time is not None or line.memory is not None or line.note, (name, row)


def test_names_that_look_like_switches_are_switches() -> None:
    entries = (*optimisations(), *choices())
    known_keys = {entry.key for entry in entries} | {f"{group}.all" for group in ("vae", "dit")}
    values = {f"{one.key}={value}" for one in choices() for value in one.values}
    for name, claim in claims().items():
        for row in claim.rows:
            assert row in known_keys | values or not is_switch(row), (name, row)
    column = [row[4] for row in cells(written())]
    for name in re.findall(r"`((?:vae|dit|run|plan)\.[\w.=-]+)`", " ".join(column)):
        assert name in known_keys | values, name


def test_an_unconfirmed_claim_has_no_other_name_anywhere() -> None:
    rows = cells(written())
    states = {text_of(message(f"claim-state.{state}")) for state in get_args(ClaimState)}
    assert {row[2] for row in rows} == states
    for name, claim in claims().items():
        promise = str(claim_of(claim.rows[0])) if claim.rows else ""
        assert claim.state != "met" or claim.rows or claim.measured or claim.on_gpu, name
        assert "unconfirmed" not in claim.words, name
        assert not promise or promise.endswith(")"), name


NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e-\d+)?")
DERIVED = {  # figures that follow from those of the page
    "fp4-pair": "an error in dB",
    "narrow-files": "a difference of bytes",
    "eight-gigabytes": "the plans of many GPUs",
    "near-real-time": "the plans of many GPUs",
}


def numbers(text: str) -> set[float]:
    """Numbers in a text, thousands with or without commas."""
    return {float(one.replace(",", "")) for one in NUMBER.findall(text)}


@cache
def numbers_on(page_name: str) -> set[float]:
    """Numbers on a page."""
    return numbers((ROOT / page_name).read_text("utf-8"))


@pytest.mark.parametrize("name", claims())
def test_figures_of_other_pages_are_on_those_pages(name: str) -> None:
    claim = claims()[name]
    h100 = numbers_on("docs/benchmarks/h100.md")
    in_ms_and_us = {round(one * unit, 3) for one in h100 for unit in (1e3, 1e6)}
    assert numbers(claim.on_gpu) <= h100 | in_ms_and_us
    cited = re.findall(r"\((docs/[\w/.-]+\.md)\)", claim.measured)
    assert bool(cited) == bool(claim.measured.replace("`bench models`", "")), name
    said = set[float]()
    for page_name in cited:
        said |= numbers_on(page_name)
    rounded = {round(one, digits) for one in said for digits in (0, 1, 2)}
    assert name in DERIVED or numbers(claim.measured.partition("(docs/")[0]) <= said | rounded


def less(before: float, after: float) -> str:
    """A saving in whole per cent."""
    return f"{round(100 * (1 - after / before))} %"


def test_few_claims_are_met_in_part_and_no_feature_is_missing() -> None:
    """A claim has switches, settings or modules, or a reason for doing without."""
    found = claims()
    assert sum(claim.state == "in-part" for claim in found.values()) <= 5
    for name, claim in found.items():
        has_parts = bool([*filter(is_switch, claim.rows), *claim.settings, *claim.modules])
        assert has_parts or why_not(name), name
        assert claim.state != "not-used" or why_not(name), name


@pytest.mark.extended
def test_a_planned_job_takes_less_memory_with_the_switches(tmp_path: Path) -> None:
    make_clip(tmp_path / "in.mkv", size=(960, 540), frames=3)
    with_them, without = (
        engine.plan(
            tmp_path / "in.mkv",
            model="seedvr2-3b",
            height=720,
            pretend_gpu="RTX 5090",
            switches=switches,
        )
        for switches in ("", "all=off")
    )
    for plan in (with_them, without):
        assert plan.work.encode_tile is plan.work.decode_tile is None
    expected = less(without.device_bytes, with_them.device_bytes)
    assert f"{expected} less" in claims()["total-memory"].words


@cache
def counted_words() -> dict[str, list[str]]:
    """Phrases of claims that follow from what the pretended GPU counts."""
    found = known()
    vae, dit = found["vae.all"], found["dit.all"]
    ring, chunks = found["vae.ring_buffers"], found["vae.chunked_upsampling"]
    winograd = found["vae.temporal_winograd"]
    buffers = [found[f"{group}.planned_buffers"] for group in ("vae", "dit")]
    in_place = [found["vae.in_place"], found["dit.in_place_residual"]]
    steps = found["dit.fused_steps"]

    def saved(row: str) -> int:
        return found[row].off.launches - found[row].on.launches

    return {
        "total-time": [
            less(vae.off.gigabytes, vae.on.gigabytes) + " of the decoder's bytes",
            less(vae.off.teraflops, vae.on.teraflops) + " of its operations",
            less(dit.off.gigabytes, dit.on.gigabytes) + " of the transformer's bytes",
        ],
        "total-memory": [f"{less(one.off.peak_gib, one.on.peak_gib)}" for one in (vae, dit)],
        "chunked-upsampling": [
            f"{100 * (1 - chunks.on.peak_gib / chunks.off.peak_gib):.1f} % less",
            f"{chunks.on.peak_gib:.2f} GiB instead of {chunks.off.peak_gib:.2f}",
        ],
        "no-concatenation": [
            less(ring.off.gigabytes, ring.on.gigabytes) + " fewer bytes",
            less(ring.off.peak_gib, ring.on.peak_gib) + " lower",
        ],
        "in-place": [
            less(in_place[1].off.peak_gib, in_place[1].on.peak_gib) + " lower",
            " and ".join(less(one.off.gigabytes, one.on.gigabytes) for one in in_place),
        ],
        "fused-activation": [less(steps.off.gigabytes, steps.on.gigabytes)],
        "memory-pools": [
            f"{round(100 * (one.on.peak_gib / one.off.peak_gib - 1))} % more" for one in buffers
        ],
        "grouped-windows": [
            "{0.on.launches:,} launches instead of {0.off.launches:,}".format(
                found["dit.grouped_windows"]
            )
        ],
        "temporal-winograd": [
            f"{winograd.off.teraflops / winograd.on.teraflops:.2f} times fewer operations",
            f"{winograd.on.gigabytes / winograd.off.gigabytes:.1f} times the bytes",
            f"{winograd.on.peak_gib / winograd.off.peak_gib:.1f} times the memory",
        ],
        "upsampler-fold": [f"{vae.off.teraflops / vae.on.teraflops:.2f} times fewer"],
        "constant-work": [
            f"saves {saved('dit.constant_modulation')} launches",
            f"the text {saved('dit.constant_text')}.",
        ],
    }


NAMES = re.compile(
    r"RTX \d+|SeedVR2|H100|FP4|b?float\d+|[23]-D|Wan 2\.\d|wan-2x|AVX-512|\b[37]B|\d+p\b"
    r"|docs/[\w./-]+"
)
H100_PAGE = ROOT / "docs" / "benchmarks" / "h100.md"


def per_row(section: str, at: int, name: int, dtype: int) -> dict[tuple[str, ...], float]:
    """Numbers of a table of the H100's page by their row's words in order, dtype and name first."""
    text = H100_PAGE.read_text("utf-8").partition(f"## {section}\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in text.splitlines()]
    found: dict[tuple[str, ...], float] = {}
    for row in rows:
        if len(row) > at and NUMBER.fullmatch(row[at]):
            others = [cell for i, cell in enumerate(row[:at]) if i not in (name, dtype)]
            found[row[dtype], row[name], *others] = float(row[at])
    return found


def times_as_fast(before: str, after: str) -> list[float]:
    """Seconds of an attention backend by those of another one, for each size and type."""
    seconds = per_row("attention", at=4, name=3, dtype=1)
    return [
        value / seconds[dtype, after, *others]
        for (dtype, name, *others), value in seconds.items()
        if name == before
    ]


@cache
def measured_words() -> dict[str, list[str]]:
    """Phrases of claims that follow from figures of their own rows or of the pages they name."""
    lines, found = machines()[0].lines, claims()
    whole = lines["vae.all"].time
    assert whole is not None
    faster = f"{1 / whole:.1f} times as fast"
    wan = [float(one) for one in NUMBER.findall(found["wan-factor"].measured)[1:5:2]]
    folds = (ROOT / "docs" / "vae-folds.md").read_text("utf-8")
    fewer = []
    for model in ("2.1", "2.2"):
        row = folds.partition(f"\n| Wan {model}, 5 |")[2].partition("\n")[0].split("|")
        fewer.append(f"{float(row[0]) / float(row[3]):.2f}")
    cudnn, usual = times_as_fast("efficient", "cudnn"), times_as_fast("efficient", "sdpa")
    plain = times_as_fast("math", "sdpa")
    passes = per_row("`bench kernels`, up to the end of the session", at=4, name=3, dtype=0)
    shares = [
        passes["float16", "kernels", *others] / value
        for (dtype, name, *others), value in passes.items()
        if (dtype, name) == ("float16", "torch") and "copy" not in others
    ]
    assert [round(1 / max(shares)), round(1 / min(shares), -1)] == [6, 20]

    def ratio(name: str, over: int, under: int) -> float:
        texts = NUMBER.findall(NAMES.sub("", found[name].on_gpu))
        figures = [float(one.replace(",", "")) for one in texts]
        return figures[over] / figures[under]

    assert round(1 / ratio("pinned-copies", 0, 1)) == 12
    assert round(1 / ratio("group-norm-silu", 1, 0)) == 10
    assert [round(ratio("fp8", 1, 2)), round(1 / ratio("fp8", 3, 4))] == [2, 2]
    compiled = [
        re.findall(r"[\d.]+ s", str(lines[f"{one}.compile"].note)) for one in ("vae", "dit")
    ]
    error = [float(one) for one in NUMBER.findall(found["fp4-pair"].measured)[:2]]
    return {
        "total-factor": [faster],
        "tiled-factor": [faster],
        "whole-factor": [faster],
        "wan-factor": [
            f"Wan 2.1 decodes {1 / wan[0]:.1f} times and Wan 2.2 {1 / wan[1]:.1f} times as fast",
            f"{' and '.join(fewer)} times fewer operations",
        ],
        "pinned-copies": ["a twelfth of the time"],
        "group-norm-silu": ["a tenth of the time"],
        "own-kernels": ["a sixth to a twentieth of the time"],
        "fused-sampling": [f"{re.findall(r'[0-9.]+(?=%)', str(lines['sampling-sums'].note))[0]} %"],
        "cudnn-attention": [f"{min(cudnn):.1f} to {max(cudnn):.1f} times as fast"],
        "attention-factor": [
            f"{min(usual):.1f} to {max(usual):.1f} times as fast",
            f"at least {int(min(plain))} times as fast",
        ],
        "fp8": ["half the memory", "twice as long"],
        "int8": [f"{ratio('int8', 1, 2):.1f} times as long"],
        "fp4": [f"{round(100 * error[0])} to {round(100 * error[1])} %"],
        "block-swap": [
            f"{round(100 * ratio('block-swap', 0, 1))} % of the GPU memory",
            f"{round(100 * (ratio('block-swap', 2, 3) - 1))} % longer",
        ],
        "compile-overhead": [f"{compiled[0][0]} for the VAE", f"{compiled[1][0]} for the"],
    }


def test_figures_in_words_follow_from_measured_ones() -> None:
    for words in (counted_words(), measured_words()):
        for name, phrases in words.items():
            for one in phrases:
                assert one in claims()[name].words, (name, one)


OF_OTHERS = {  # figures without a row, each with its test or its source
    "total-memory": ["16 % less"],  # test_a_planned_job_takes_less_memory_with_the_switches
    "fused-sampling": ["save 2 %"],  # the claim itself
    "channels-last": ["measured 6 to 17 % on GPUs"],  # the sources that the claim names
    "stable-memory": ["20 clips"],  # the row of the benchmark
    "long-films": ["161 frames is that of 21"],  # docs/benchmarks/wan-vae.md
}


def test_no_figure_in_words_is_left_unchecked() -> None:
    processor = machines()[0].lines
    for name, claim in claims().items():
        rest = NAMES.sub("", claim.words)
        known_phrases = (counted_words(), measured_words(), OF_OTHERS)
        phrases = [one for group in known_phrases for one in group.get(name, [])]
        for phrase in sorted(phrases, key=len, reverse=True):
            assert phrase in claim.words, (name, phrase)
            rest = rest.replace(NAMES.sub("", phrase), "")
        lines = [processor[row] for row in claim.rows]
        ratios = {f"{one:.2f}" for line in lines for one in (line.time, line.memory) if one}
        left = numbers(rest) - {float(one) for one in ratios} - numbers(claim.measured)
        assert not left, (name, left)


def test_ratios_in_words_are_those_of_the_benchmark() -> None:
    """Only two digits after the point are ratios; the rest are per cent and counts."""
    processor = machines()[0].lines
    for name, claim in claims().items():
        lines = [processor[row] for row in claim.rows]
        known_ratios = {f"{one:.2f}" for line in lines for one in (line.time, line.memory) if one}
        others = claim.measured + claim.on_gpu + _counts_of(claim)
        for ratio in re.findall(r"(?<![\d.])(0\.\d\d|1\.\d\d)(?!\d)(?= of| times as)", claim.words):
            assert ratio in known_ratios or ratio in others, (name, ratio)


def _counts_of(claim: Claim) -> str:
    return " ".join(row[-1] for row in cells(written()) if claim.words in row)


def test_the_reason_against_graphs_has_the_figures_of_the_table() -> None:
    slice_share, tile_share = (host_shares(step)[0] for step in ("decode 720p", "decode 256 px"))
    for language in ("en", "zh_CN"):
        hint = text_of(message("claim.cuda-graphs").hint, language)
        for share in (slice_share, tile_share):
            assert f"{round(100 * share)} %" in hint, language
        assert f"{round(LAUNCH_S * 1e6)}" in hint


def test_the_page_and_the_chart_of_a_cpu_are_those_of_its_figures() -> None:
    folder = ROOT / "docs" / "benchmarks"
    rows = json.loads((folder / "optimisations-cpu.json").read_text("utf-8"))["results"]
    page_text = (folder / "optimisations-cpu.md").read_text("utf-8")
    assert page_text == markdown(rows, "bench optimisations")
    assert (folder / "optimisations-cpu.svg").read_text("utf-8") == svg_of(rows)


def test_figures_of_a_gpu_get_a_column_of_their_own(tmp_path: Path) -> None:
    (processor, *_) = machines()
    without = page([processor], known())
    assert H100 in without
    rows = [
        {"case": "machine", "processor": "A processor", "card": "Some GPU", "torch": "2.13"},
        {"case": "optimisations-vae", "switch": "vae.fused_norm", "time": 0.5, "memory": 0.75},
    ]
    answers = {"basis": {"machine": rows[0]}, "answers": {"optimisations": {"rows": rows[1:]}}}
    for name, content in (("optimisations", {"results": rows}), ("first-contact", answers)):
        path = tmp_path / f"{name}-some-gpu.json"
        path.write_text(json.dumps(content))
        (gpu,) = machines(tmp_path)
        path.unlink()
        assert gpu.has_gpu
        text = page([processor, gpu], known())
        assert "| Some GPU, torch 2.13 |" in text
        assert "vae.fused_norm: 0.50 of the time, 0.75 of the memory" in text
        assert "| not measured |" in text
        assert all(all(row) for row in cells(text))


def test_counts_of_the_pretended_gpu_are_without_and_with_the_switch() -> None:
    count = known()["vae.ring_buffers"]
    more = replace(count, off=replace(count.off, launches=count.on.launches + 1000))
    text = page(
        [MeasuredMachine({"card": "none", "processor": "P", "torch": "2"}, {})],
        {"vae.ring_buffers": more},
    )
    assert f"{count.on.launches + 1000:,} → {count.on.launches:,} launches" in text
