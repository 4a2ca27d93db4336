"""`python -m tests.helpers.window_job FILM RESULT CHOICES.json`: one job in the window."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

from PySide6.QtCore import QTimer

from app.application import Program, begin_work, make_application
from app.start_options import no_options
from engine.protocol import events
from engine.settings.schema import JobSettings


def main(source: str, output: str, settings: str) -> int:
    """Show the window, do the job and close; the exit status is 0 where the job has ended well."""
    app = make_application(["upreel"])
    program = Program(app)
    ends: list[events.Event] = []

    def end(event: events.Event) -> None:
        ends.append(event)
        program.window.close()
        QTimer.singleShot(0, app.quit)

    for kind in (events.JobFinished, events.JobFailed, events.JobRejected):
        program.bridge.subscribe(kind, end)
    choices = dataclasses.replace(JobSettings(), **json.loads(Path(settings).read_text("utf-8")))
    program.window.show()
    begin_work(program, no_options())
    program.controller.add_file(
        Path(source), settings=choices, output=Path(output), starts_at_once=True
    )
    app.exec()
    program.close()
    print(ends)
    return 0 if ends and isinstance(ends[0], events.JobFinished) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
