"""Resources of the main kernels: none spills registers, and two blocks fit a multiprocessor."""

import pytest

from tests.helpers.extended import rest_extended
from tools import kernel_table
from tools.kernel_table import ARCHITECTURES, programs, usage

REGISTERS = 65_536  # of a multiprocessor
PROGRAMS = dict(programs())
USUAL = [("3x3x3, 512, promoted", arch) for arch in ("sm_75", "sm_86", "sm_120")]


@pytest.mark.parametrize(
    ("name", "arch"),
    rest_extended([(name, arch) for name in PROGRAMS for arch in ARCHITECTURES], *USUAL),
)
def test_no_main_kernel_spills_and_two_blocks_run_at_once(name, arch):
    program = PROGRAMS[name]
    found = usage(program, arch)
    assert found.spilled_bytes == found.stack_bytes == 0
    allotted = -(-found.registers // 8) * 8  # registers come in groups of 8 a thread
    assert program.tile.blocks * program.tile.threads * allotted <= REGISTERS


def test_the_table_has_a_line_for_each_kernel(monkeypatch, capsys):
    for name in ("LAYERS", "BESIDES"):
        few = dict(list(getattr(kernel_table, name).items())[-1:])
        monkeypatch.setattr(kernel_table, name, few)
    monkeypatch.setattr("sys.argv", ["kernel_table", "sm_86"])
    kernel_table.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.count("|") for line in lines] == [6] * 6
    assert all("0 spilled" in line for line in lines[2:])
