import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.core import log
from engine.core.log import job_log

_CRASH = "import faulthandler; from engine.core import log; log.setup(); faulthandler._sigsegv()"


def test_a_crash_of_a_library_leaves_where_it_was(tmp_path: Path) -> None:
    data = tmp_path / "data"
    root = Path(__file__).parents[3]
    environment = os.environ | {"UPREEL_DATA": str(data)}
    ended = subprocess.run([sys.executable, "-c", _CRASH], cwd=root, env=environment, check=False)
    assert ended.returncode != 0
    text = (data / "logs" / "crash.log").read_text("utf-8")
    assert "most recent call first" in text
    assert 'File "<string>", line 1' in text


@pytest.mark.parametrize(
    ("word", "level"),
    [("", "INFO"), ("debug", "DEBUG"), ("WARNING", "WARNING"), ("error", "ERROR"), ("x", "INFO")],
)
def test_a_variable_chooses_what_is_logged(
    word: str, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UPREEL_LOG", word)
    log.choose_level()
    assert logging.getLogger().level == getattr(logging, level)


def test_nothing_that_a_message_quotes_looks_like_a_record(tmp_path: Path) -> None:
    forged = "2026-11-27 12:00:00,000 ERROR   engine: forged"
    name = f"a\n{forged}\r\x1b[31m\u202e\u2028.mp4"
    try:
        raise ValueError(name)
    except ValueError:
        with job_log(tmp_path):
            logging.getLogger("engine").warning("%s is damaged", name, exc_info=True)
            logging.getLogger("engine").warning("%s", name, extra={"details": f"b\n{name}\n"})
    lines = (tmp_path / "job.log").read_text("utf-8").split("\n")
    records = [line for line in lines if line and not line.startswith("    ")]
    shown = f"a\\n{forged}\\r\\x1b[31m\\u202e\\u2028.mp4"
    assert [one.partition(": ")[2] for one in records] == [f"{shown} is damaged", shown]
    assert lines[-4:] == ["    b", "    a", f"    {shown[3:]}", ""]


def test_without_a_folder_for_the_log_nothing_of_it_is_on_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("UPREEL_DATA", str(tmp_path / "file" / "data"))
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    log.setup()
    logging.getLogger("engine").warning("a record")
    assert not capfd.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_log_on_a_full_disk_stops_nothing_and_says_nothing(tmp_path, capfd):
    (tmp_path / "job.log").symlink_to("/dev/full")
    with job_log(tmp_path):
        logging.getLogger("engine").warning("a record")
    with job_log(tmp_path / "no such folder"):
        logging.getLogger("engine").warning("a record")
    assert "Traceback" not in capfd.readouterr().err
