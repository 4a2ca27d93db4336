import json
from dataclasses import replace
from pathlib import Path

from engine.bench.report import claims
from tests.pretended_gpu.published_switches import known
from tools.reports.claims import NEEDS_GPU, PAGE, MeasuredMachine, machines, page


def cells(text: str) -> list[list[str]]:
    """Cells of each row of the page's first table, the head and its line left out."""
    table = text.partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def test_the_page_is_what_the_command_writes() -> None:
    assert PAGE.read_text("utf-8") == page(machines(), known())


def test_every_claim_has_a_row_without_an_empty_cell() -> None:
    rows = cells(page(machines(), known()))
    assert len(rows) == len(claims())
    for row in rows:
        assert len(row) == len(rows[0])
        assert all(row), row


def test_each_generation_has_a_reason_for_what_is_off() -> None:
    text = page(machines(), known()).partition("\n## ")[2]
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


def test_figures_of_a_gpu_get_a_column_of_their_own(tmp_path: Path) -> None:
    (processor, *_) = machines()
    without = page([processor], known())
    assert NEEDS_GPU in without
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
