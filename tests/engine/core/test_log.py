import logging
from pathlib import Path

import pytest

from engine.core.log import job_log


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_log_on_a_full_disk_stops_nothing_and_says_nothing(tmp_path, capfd):
    (tmp_path / "job.log").symlink_to("/dev/full")
    with job_log(tmp_path):
        logging.getLogger("engine").warning("a record")
    with job_log(tmp_path / "no such folder"):
        logging.getLogger("engine").warning("a record")
    assert "Traceback" not in capfd.readouterr().err
