from pathlib import Path

from engine.core.messages import message
from engine.protocol.report import DoctorLine
from tests.helpers.command_line import CommandLine


def test_doctor_ends_with_1_only_when_something_is_broken(command_line: CommandLine) -> None:
    for state, status in (("ok", 0), ("warning", 0), ("problem", 1)):
        little = message("doctor.disk.little", free="1 GB")
        command_line.services.lines = (
            DoctorLine(name="torch", state="ok", message=message("doctor.version", version="2.13")),
            DoctorLine(name="disk", state=state, message=little),
        )
        ended = command_line("doctor")
        assert ended.status == status
        assert "hint: Free some space" in ended.out
        (answer,) = command_line("doctor", "--json").objects
        assert answer["works"] is (status == 0)
        first, second = answer["lines"]
        assert first == {"name": "torch", "state": "ok", "message": "2.13", "hint": ""}
        assert (second["state"], second["message"]) == (state, "1 GB free for unfinished jobs")
        assert second["hint"].startswith("Free some space")


def test_doctor_writes_an_archive(command_line: CommandLine) -> None:
    line = DoctorLine(name="torch", state="ok", message=message("doctor.version", version="2.13"))
    command_line.services.lines = (line,)
    ended = command_line("doctor", "--zip", "a.zip")
    assert (ended.status, "Written: a.zip" in ended.err) == (0, True)
    assert command_line("doctor", "--zip", "b.zip", "--with-names").status == 0
    archives = [(Path("a.zip"), (line,), False), (Path("b.zip"), (line,), True)]
    assert command_line.services.asked == archives
    assert command_line("doctor", "--with-names").status == 2
