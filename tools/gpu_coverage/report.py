"""Share of the GPU code that the tests of `tests/pretended_gpu` run, by line.

`python -m tools.gpu_coverage.report` runs them, prints a table, and fails below 95 % of
the lines; with `--write` it writes docs/benchmarks/pretended-gpu-coverage.md. What counts as a line
for a GPU: `gpu_lines`. With `-p` this module is the plugin of pytest that records the lines.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from unittest.mock import patch

import pytest
from coverage import Coverage

from tools.gpu_coverage.gpu_lines import ENGINE, GpuCode, gpu_code, parts_run

ROOT = ENGINE.parent
PAGE = ROOT / "docs" / "benchmarks" / "pretended-gpu-coverage.md"
LEAST = 95.0  # per cent
_DATA = "UPREEL_PRETENDED_COVERAGE"  # path of the record, of whose name each process has its own

# Functions with lines that no test can run without a GPU, and the reason.
NOT_PRETENDED = {
    "ops/attention/attention.py:_full": "the pretended GPU already has a device index there",
    "ops/kernels/nvrtc.py:Nvrtc.__init__": "search for libraries on Windows",
    "ops/kernels/nvrtc.py:Nvrtc._call": "failure of NVRTC itself, which no source code causes",
}
# Replacements that the counted lines called.
STAND_INS = (
    "operators of torch, cuDNN and cuBLAS: those of the CPU, with CUDA's dtypes and layouts",
    "streams, events, allocator, pinned memory: `tests/pretended_gpu/gpu.py`",
    "our kernels: equivalent torch code, `tests/pretended_gpu/kernels.py`",
    "CUDA driver: recorded calls, `tests/pretended_gpu/test_kernels.py`; NVRTC is the real one",
    "attention packages: the plain formula, `tests/helpers/attention_packages.py`",
    "counters of shared memory on Windows: values from the tests",
)


def pytest_configure(config: pytest.Config) -> None:
    """Record the lines that this process runs, until its end."""
    files = [str(path) for path in gpu_code()]
    record = Coverage(
        data_file=os.environ[_DATA], data_suffix=True, include=files, config_file=False
    )
    record.set_option(
        "run:disable_warnings", ["no-data-collected"]
    )  # by the one of several workers
    patch.object(SourceFileLoader, "get_code", _get_code).start()
    record.start()
    config.add_cleanup(record.save)
    config.add_cleanup(record.stop)


_usual_code = SourceFileLoader.get_code


def _get_code(loader: SourceFileLoader, name: str) -> CodeType | None:
    """A module, compiled so that branches within lines are recorded, too."""
    code = gpu_code().get(Path(loader.path))
    if code is None:
        return _usual_code(loader, name)
    return compile(code.shift_parts(), loader.path, "exec", dont_inherit=True)


@dataclass(frozen=True, slots=True)
class Row:
    """One file.

    Attributes:
        name: Below the engine.
        lines: For a GPU.
        missing: Lines that were not run, with their function; a line with two parts appears twice.
    """

    name: str
    lines: int
    missing: tuple[tuple[int, str], ...]

    @property
    def run(self) -> int:
        """Lines that were run."""
        return self.lines - len(self.missing)


def row_of(record: Coverage, path: Path, code: GpuCode) -> Row:
    """Row of a file in a record."""
    _, statements, _, missing, _ = record.analysis2(str(path))
    lines = code.lines.intersection(statements)
    parts = list(parts_run(code, set(record.get_data().lines(str(path)) or ())))
    not_run = [*lines.intersection(missing), *(line for line, is_run in parts if not is_run)]
    return Row(
        path.relative_to(ENGINE).as_posix(),
        len(lines) + len(parts),
        tuple((line, code.owners[line]) for line in sorted(not_run)),
    )


def recorded_rows(pytest_options: list[str]) -> list[Row]:
    """Run the tests and look at what they ran."""
    with tempfile.TemporaryDirectory() as folder:
        data = str(Path(folder) / "lines")
        tests = [sys.executable, "-m", "pytest", "-q", "-m", "pretended_gpu", "-p", __spec__.name]
        command = [*tests, *pytest_options, str(ROOT / "tests" / "pretended_gpu")]
        subprocess.run(command, env={**os.environ, _DATA: data}, cwd=ROOT, check=True)
        record = Coverage(data_file=data, config_file=False)
        record.combine([folder])
        return [row_of(record, path, code) for path, code in gpu_code().items()]


def table(rows: list[Row]) -> Iterator[str]:
    """Files and what was run of them, in Markdown."""
    yield "| file | GPU lines | run | % | not run |"
    yield "|---|---:|---:|---:|---|"
    for row in rows:
        missing = ", ".join(str(line) for line, _ in row.missing)
        share = 100 * row.run / row.lines
        yield f"| {row.name} | {row.lines} | {row.run} | {share:.0f} | {missing} |"
    lines, run = sum(row.lines for row in rows), sum(row.run for row in rows)
    yield f"| all | {lines} | {run} | {percent(rows):.1f} | |"


def percent(rows: list[Row]) -> float:
    """Share of lines that were run."""
    return 100 * sum(row.run for row in rows) / sum(row.lines for row in rows)


def not_run(rows: list[Row]) -> Iterator[str]:
    """Lines that were not run, by function, with the reason."""
    for row in rows:
        functions = defaultdict(list)
        for line, function in row.missing:
            functions[f"{row.name}:{function}"].append(str(line))
        for name, lines in functions.items():
            yield f"- `{name}`, {', '.join(lines)}: {NOT_PRETENDED.get(name, 'no test')}"


def page(rows: list[Row]) -> str:
    """The report as a document."""
    lines = [
        "# GPU code that tests run without a GPU",
        "",
        "This page is written by `python -m tools.gpu_coverage.report --write`. It counts the",
        "lines of `engine/ops`, `engine/models` and `engine/pipeline` that run only for a GPU, and",
        "those among them that the tests of `tests/pretended_gpu` ran without one. What a real GPU",
        "has run is in [h100.md](h100.md). `tools/gpu_coverage/gpu_lines.py` defines which lines",
        "are counted; a branch within a line counts as well.",
        "",
        *table(rows),
        "",
        "## Not run",
        "",
        *not_run(rows),
        "",
        "## Replaced by stand-ins",
        "",
        *(f"- {text}" for text in STAND_INS),
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Print the report, or write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the page")
    options, pytest_options = parser.parse_known_args()
    rows = recorded_rows(pytest_options)
    print("\n".join([*table(rows), "", *not_run(rows)]))
    if options.write:
        PAGE.write_text(page(rows), encoding="utf-8")
    if percent(rows) < LEAST:
        raise SystemExit(f"{percent(rows):.1f} % are less than {LEAST} %")


if __name__ == "__main__":
    main()
