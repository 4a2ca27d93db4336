"""Measured processes: what one leaves does not reach the next where it must not."""

from pathlib import Path

from tools.figures.child import Children

_WRITE = "import os, pathlib; p = pathlib.Path(os.environ['UPREEL_DATA']); p.mkdir(parents=True)"


def test_processes_with_new_data_find_none_of_earlier_ones(tmp_path: Path) -> None:
    children = Children(tmp_path, tmp_path, tmp_path / "bytecode")
    for _ in range(2):  # a folder that is there already ends the process with an error
        children.with_new_data().run("-c", _WRITE)
