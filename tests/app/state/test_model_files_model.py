from __future__ import annotations

from dataclasses import replace

import pytest

from app.bridge.engine_bridge import EventHub
from app.state.model_files_model import FileStatus, ModelFilesModel, Package, status_of
from app.state.tasks_model import TasksModel, TaskState
from engine.protocol import commands, events
from tests.helpers.fake_states import OFFLINE
from tests.helpers.fake_tasks import FILE, FakeTasks

DIT, VAE, TEXT = "seedvr2-3b-fp8", "seedvr2-vae", "seedvr2-text"
ORDER = (TEXT, VAE, DIT)
WAN = ("wan-2x", "wan21-vae", "wan22-vae")


class Both:
    """A model that hears what a pretended engine says, as it would in the window."""

    def __init__(self) -> None:
        self.hub = EventHub()
        self.model = ModelFilesModel(self.hub, TasksModel(self.hub))
        self.engine = FakeTasks(self)
        self.engine.list(FILE)

    def emit(self, event: events.Event) -> None:
        self.hub.deliver(event)

    def get(self, main: str = DIT) -> None:
        known = self.model.find(main)
        assert known is not None
        lacking = [file.id for file in self.model.package(known).lacking]
        fresh = [file for file in lacking if file not in self.model.running]
        self.model.request("download", lacking, main=main)
        for file in fresh:
            self.engine.answer(commands.DownloadModelFile(file=file))

    def package(self, main: str = DIT) -> Package:
        known = self.model.find(main)
        assert known is not None
        return self.model.package(known)

    def task(self, main: str = DIT) -> TaskState | None:
        return self.model.task_of(self.package(main))

    def status(self, main: str = DIT) -> FileStatus:
        return status_of(self.package(main), self.task(main))


@pytest.fixture
def both() -> Both:
    return Both()


def test_a_transformer_comes_with_what_it_cannot_work_without(both: Both) -> None:
    assert tuple(file.id for file in both.package().files) == ORDER
    assert tuple(file.id for file in both.package(VAE).files) == (VAE,)


def test_groups_are_the_models_in_their_order(both: Both) -> None:
    assert both.model.models == ("seedvr2-3b", "seedvr2-7b", "seedvr2-7b-sharp", *WAN)
    assert [package.main.id for package in both.model.shared] == [VAE, TEXT]
    assert len(both.model.packages("seedvr2-3b")) == 4


def test_a_file_at_rest_stands_as_the_engine_says(both: Both) -> None:
    for state, status in (
        ("missing", FileStatus.MISSING),
        ("partial", FileStatus.PARTIAL),
        ("damaged", FileStatus.DAMAGED),
        ("unverified", FileStatus.UNCHECKED),
        ("here", FileStatus.HERE),
        ("busy", FileStatus.ELSEWHERE),
    ):
        both.engine.put(VAE, state)
        both.engine.list(FILE)
        assert both.status(VAE) is status, state


def test_a_transformer_without_its_vae_cannot_be_used(both: Both) -> None:
    both.engine.put(DIT, "here")
    both.engine.list(FILE)
    assert both.status() is FileStatus.INCOMPLETE
    assert both.package().lacking_mb == 501


def test_an_order_shows_before_the_engine_answers(both: Both) -> None:
    both.model.request("download", ORDER, main=DIT)
    assert both.status() is FileStatus.WAITING


def test_the_bar_of_a_model_never_goes_back(both: Both) -> None:
    both.get()
    shares = []
    for megabytes in (0.5, 1.0):
        both.engine.advance(FILE, megabytes)
        shares.append(both.task())
    both.engine.finish(FILE)
    for megabytes in (100, 400):
        both.engine.advance(FILE, megabytes)
        shares.append(both.task())
    both.engine.finish(FILE)
    shares.append(both.task())
    both.engine.advance(FILE, 1700)
    shares.append(both.task())
    values = [task.share for task in shares if task is not None and task.total]
    assert values == sorted(values)
    last = shares[-1]
    assert last is not None
    assert (last.done, last.total) == (1 + 500 + 1700, 3901)
    assert last.seconds_left == pytest.approx((3901 - 2201) / 12.5)
    both.engine.finish(FILE)
    assert both.status() is FileStatus.HERE
    assert both.task() is None


def test_what_another_row_fetches_does_not_look_like_this_ones_progress(both: Both) -> None:
    both.get()
    both.engine.advance(FILE, 0.5)
    assert both.status() is FileStatus.BUSY
    assert both.status("seedvr2-7b-fp8") is FileStatus.MISSING


def test_two_models_share_one_download_of_the_vae(both: Both) -> None:
    both.get()
    both.get("seedvr2-7b-fp8")
    assert both.engine.waiting(FILE) == [*ORDER, "seedvr2-7b-fp8"]
    assert both.model.stoppable(DIT) == (DIT,)  # the other one still waits for VAE and text
    assert both.model.stoppable(VAE) == (VAE,)


def test_another_order_does_not_set_a_running_download_back(both: Both) -> None:
    both.engine.put("seedvr2-text", "here")
    both.engine.list(FILE)
    both.get()
    both.engine.advance(FILE, 300)
    both.get("seedvr2-7b-fp8")
    for main in (DIT, "seedvr2-7b-fp8"):
        task = both.task(main)
        assert task is not None
        assert task.done == 300


def test_a_single_order_is_stopped_with_all_its_files(both: Both) -> None:
    both.get()
    both.engine.advance(FILE, 0.5)
    assert both.model.stoppable(DIT) == ORDER
    for file in ORDER:
        both.engine.answer(commands.StopTask(kind=FILE, subject=file))
    assert both.status() is FileStatus.MISSING
    assert both.model.running == ()


def test_an_error_stays_until_it_is_tried_again(both: Both) -> None:
    both.get()
    both.engine.finish(FILE)
    both.engine.finish(FILE)
    both.engine.fail(FILE, megabytes=1204)
    assert both.status() is FileStatus.FAILED
    task = both.task()
    assert task is not None
    assert task.error == OFFLINE
    both.engine.list(FILE)
    assert both.status() is FileStatus.FAILED
    both.get()
    assert both.status() is FileStatus.WAITING
    both.engine.advance(FILE, 2000)
    assert both.status() is FileStatus.BUSY


def test_what_is_there_of_a_file_counts_while_it_waits(both: Both) -> None:
    both.engine.put(DIT, "partial", megabytes=1700)
    both.engine.list(FILE)
    both.get()
    both.engine.advance(FILE, 0.5)
    task = both.task()
    assert task is not None
    assert task.done == 1700.5


def test_an_error_of_the_vae_shows_where_a_transformer_needs_it(both: Both) -> None:
    both.engine.put(DIT, "here")
    both.engine.put(TEXT, "here")
    both.engine.list(FILE)
    both.get()
    both.engine.fail(FILE)
    assert both.status() is FileStatus.FAILED
    assert both.status("seedvr2-7b-fp8") is FileStatus.MISSING


def test_without_a_wish_the_file_that_is_here_is_taken_then_one_that_was_begun(
    both: Both,
) -> None:
    def best(precision: str = "auto") -> str:
        package = both.model.best_package("seedvr2-3b", precision)
        return package.main.id if package is not None else ""

    assert best() == "seedvr2-3b-fp16"
    assert best("q4") == "seedvr2-3b-q4"
    assert best("int1") == ""
    both.engine.put("seedvr2-3b-q4", "partial", megabytes=3)
    both.engine.list(FILE)
    assert best() == "seedvr2-3b-q4"
    both.engine.put("seedvr2-3b-fp8", "unverified")
    both.engine.list(FILE)
    assert best() == "seedvr2-3b-fp8"


def test_a_size_that_nobody_knows_is_no_division_by_zero(both: Both) -> None:
    both.engine.files[VAE] = replace(both.engine.files[VAE], bytes=0)
    both.engine.list(FILE)
    both.get(VAE)
    both.emit(events.TaskProgress(kind=FILE, subject=VAE, phase="download", done=12.0))
    task = both.task(VAE)
    assert task is not None
    assert (task.share, task.done) == (0.0, 12.0)


def test_an_import_is_known_by_its_path_until_it_has_ended(both: Both) -> None:
    path = "/films/my.safetensors"
    both.model.request("import", [path])
    assert both.model.imports[path].waits
    both.emit(events.TaskFailed(kind=FILE, subject=path, phase="import", error=OFFLINE))
    assert both.model.imports[path].error == OFFLINE
    assert both.model.running == ()
    both.model.dismiss(path)
    assert both.model.imports == {}


def test_a_file_larger_than_four_gigabytes_is_counted_right(both: Both) -> None:
    large = "seedvr2-7b-fp16"
    both.engine.put_package("seedvr2-3b-fp8")
    both.engine.list(FILE)
    both.get(large)
    both.engine.advance(FILE, 9000.5)
    task = both.task(large)
    assert task is not None
    assert (task.done, task.total) == (9000.5, 16400.0)


def test_a_computed_size_stands_in_for_one_that_was_not_published(both: Both) -> None:
    both.engine.files[VAE] = replace(both.engine.files[VAE], bytes=0, about_bytes=502 * 10**6)
    both.engine.list(FILE)
    assert both.package(VAE).lacking_mb == 502


def test_a_vae_of_wan_is_a_model_of_its_own(both: Both) -> None:
    assert [package.main.id for package in both.model.packages("wan21-vae")] == [
        "wan21-vae-fp32",
        "wan21-vae-16bit",
    ]
    assert both.package("wan-2x-fp32").others == ()
    best = both.model.best_package("wan-2x", precision="q4")  # a wish about transformers
    assert best is not None
    assert best.main.id == "wan-2x-fp32"


def test_of_files_with_the_same_numbers_one_that_is_here_will_do(both: Both) -> None:
    first = both.model.best_package("wan21-vae")
    both.engine.put("wan21-vae-16bit", "unverified")
    both.engine.list(FILE)
    second = both.model.best_package("wan21-vae")
    assert first is not None
    assert second is not None
    assert (first.main.id, second.main.id) == ("wan21-vae-fp32", "wan21-vae-16bit")
