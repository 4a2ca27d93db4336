from pathlib import Path

import pytest

from engine.core.errors import OutputUnwritable
from engine.protocol.commands import WriteDiagnostics
from engine.protocol.tasks import TaskKind
from tests.app.conftest import Bench, part

KIND = TaskKind.DIAGNOSTICS


def test_the_archive_is_written_where_the_user_says(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[Path | None] = [None, Path("/x/report.zip"), Path("/x/other.zip")]
    monkeypatch.setattr(bench.program.diagnostics, "ask_file", lambda: chosen.pop(0))
    bench.do("settings")
    dialog = bench.program.settings.dialog
    button, summary = part(dialog, "openDiagnostics"), part(dialog, "diagnosticSummary")
    assert "without names of videos" in summary.text()
    button.click()  # and the user gives up
    assert bench.asked(WriteDiagnostics) == []
    button.click()
    bench.hear()
    assert [asked.path for asked in bench.asked(WriteDiagnostics)] == [Path("/x/report.zip")]
    assert not button.isEnabled()
    assert "Checking" in summary.text()
    bench.tasks.finish(KIND)
    assert summary.text() == "Saved: report.zip"
    button.click()
    error = OutputUnwritable("folder", folder="/x", reason="read-only", path="/x/other.zip")
    bench.hear()
    bench.tasks.fail(KIND, error.info())
    assert "read-only" in summary.text()
    assert button.isEnabled()
