"""Lines that run only for a GPU are found by what they mean, not by a word in them."""

from __future__ import annotations

import re

import pytest

from tools.gpu_coverage import gpu_lines

pytestmark = pytest.mark.pretended_gpu

SOURCE = """
def pins(device):
    return device.type == "cuda" and allowed()  # part


def find(x):
    vector = width_of(x) if build.is_gpu(x.device) else 0  # part
    if not vector:
        return None
    return load(vector)  # line


class Model:
    def __init__(self, device):
        self.on_its_gpu = device.type == "cuda"
        self.graphs = {}
        if self.on_its_gpu:
            self.graphs = {"encode": record()}  # line

    @property
    def graph(self):
        return self.graphs.get("encode")

    def run(self, x):
        found = find(x)
        if found is not None and x.ndim == 2:  # part
            found.launch()  # line
        elif x.device.type != "cpu":
            reference(x)  # line
        else:
            reference(x.contiguous())
        if self.graph is None or x.requires_grad:  # part
            return reference(x)
        return self.graph(x)  # line


def either(device, size):
    try:
        work = big(device)
    except torch.OutOfMemoryError:
        raise  # line
    except RuntimeError:
        raise
    for _ in range(3):
        if "cpu" == size:
            continue
        if device.type == "cpu":
            continue
        torch.cuda.synchronize()  # line
    limit = 4096 if device.type == "cuda" else 512  # part
    if limit > 1000 or torch.cuda.is_available():
        return limit
    return work


def lost(device):
    torch.cuda.synchronize(device)  # line
    other.synchronize(device)
"""


def test_what_runs_only_for_a_gpu_is_found() -> None:
    found = gpu_lines.find({"ops/example.py": SOURCE})["ops/example.py"]
    marked = {kind: set[int]() for kind in ("line", "part")}
    for number, line in enumerate(SOURCE.splitlines(), 1):
        for kind, lines in marked.items():
            if line.endswith(f"  # {kind}"):
                lines.add(number)
    assert found.lines == marked["line"]
    assert [part.lineno for part in found.parts] == sorted(marked["part"])


def test_a_part_of_a_line_is_distinguished_from_the_rest() -> None:
    source = "def size(device):\n    return 'much' if device.type == 'cuda' else 'little'\n"
    code, shifted = (gpu_lines.find({"a.py": source})["a.py"] for _ in range(2))
    (part,) = shifted.parts
    shifted.shift_parts()
    for executed, is_run in (({1, 2}, False), ({1, 2, part.lineno}, True)):
        assert list(gpu_lines.parts_run(code, executed)) == [(2, is_run)]


@pytest.mark.parametrize("name", gpu_lines.GPU_ONLY)
def test_what_is_listed_exists(name: str) -> None:
    file, _, owner = name.partition(":")
    text = (gpu_lines.ENGINE / file).read_text("utf-8")
    assert re.search(rf"(def|class) {owner.rpartition('.')[2]}", text)
