"""The program of a machine of the tests: lends its processor until its input ends.

`python -m tests.helpers.farm_machine FOLDER ADDRESS`; its input has "pause" and "resume". A file
`fault` in the folder names what goes wrong in the process that computes.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
from pathlib import Path
from typing import Any

_FAULT = "fault"


def main() -> None:
    """Run until the input ends."""
    from engine.farm.endpoint import own_endpoint
    from engine.farm.lending import Lending
    from tests.helpers.farm_machines import processor

    folder, address = Path(sys.argv[1]), sys.argv[2]

    def changed(state: str, what: str) -> None:
        print(state, what, flush=True)

    with Lending(
        own_endpoint(), lambda: (address,), changed, folder=folder / "lent", devices=(processor(),)
    ) as lending:
        for line in sys.stdin:
            getattr(lending, line.strip())()


def _go_wrong(folder: Path) -> None:
    """In the process that computes: let go wrong what the file names, each time it is asked."""
    from engine.core.serialization import to_plain
    from engine.hardware.process import load_for_good

    load_for_good("engine.farm.lent")  # as the process does itself
    from engine.farm import lent
    from engine.ops.conv import temporal_conv
    from engine.video.write import segment_writer
    from engine.workers.reports import Made

    def fault() -> str:
        file = folder / _FAULT
        return file.read_text() if file.is_file() else ""

    right_send, right_write = lent.send_segment, segment_writer._VideoFile.write
    right_asked, right_version = lent._Process._job_of, lent.__version__
    right_tell, right_make = lent.LentWorker.report, lent.LentWorker.make
    right_sums = temporal_conv._fault_in_place

    def send(path: Path, on: Any) -> None:
        def wrong(begin: int, piece: bytes, sha256: str) -> bool:
            is_wrong = fault() == "bytes" and piece
            return on(begin, bytes([piece[0] ^ 1]) + piece[1:] if is_wrong else piece, sha256)

        right_send(path, wrong)

    def write(self: Any, *args: Any) -> None:
        if fault() == "disk":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if fault() == "stall":
            threading.Event().wait()  # its connection lives
        right_write(self, *args)

    async def asked(self: Any, host: str) -> Any:
        lent.__version__ = "0.0.1" if fault() == "version" else right_version
        return await right_asked(self, host)

    def tell(self: Any, kind: str, data: Any) -> None:
        match fault():
            case "nonsense":
                right_tell(self, kind, {"number": "first"})
            case "another span":
                right_tell(self, kind, {**data, "first": 99} if kind == "made" else data)
            case "silence" if kind == "made":
                pass
            case _:
                right_tell(self, kind, data)

    def make(self: Any, span: Any) -> Any:
        if fault() == "crash":
            raise KeyError("a mistake")
        if fault() == "nothing":
            self.report("made", to_plain(Made(first=span.first)))
            return None
        return right_make(self, span)

    def fault_in_place() -> str:
        return "it has been removed" if fault() == "sums in place" else right_sums()

    temporal_conv._fault_in_place = fault_in_place
    lent.send_segment = send
    lent.LentWorker.report, lent.LentWorker.make = tell, make
    segment_writer._VideoFile.write = write
    lent._Process._job_of = asked


if __name__ == "__main__":
    main()
elif __name__ == "__mp_main__" and len(sys.argv) > 1:
    _go_wrong(Path(sys.argv[1]))
