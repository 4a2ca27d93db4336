import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_log_on_a_full_disk_stops_nothing_and_says_nothing(tmp_path, capfd):
    (tmp_path / "job.log").symlink_to("/dev/full")
    with job_log(tmp_path):
        logging.getLogger("engine").warning("a record")
    with job_log(tmp_path / "no such folder"):
        logging.getLogger("engine").warning("a record")
    assert "Traceback" not in capfd.readouterr().err
