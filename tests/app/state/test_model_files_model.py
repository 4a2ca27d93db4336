from dataclasses import replace
from typing import get_args

import pytest

from app.bridge.engine_bridge import EventHub
from app.state.model_files_model import ModelFilesModel, Package, PackageState, state_of
from app.state.tasks_model import TasksModel, TaskState
from engine.protocol import commands, events
from engine.protocol.model_file_state import State
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
        lacking = [file.id for file in self.package(main).lacking]
        fresh = [file for file in lacking if file not in self.model.running]
        self.model.request("download", lacking, main=main)
        for file in fresh:
            self.engine.answer(commands.DownloadModelFile(file=file))

    def put(self, file: str, state: str = "here", megabytes: float = 0.0) -> None:
        self.engine.put(file, state, megabytes=megabytes)
        self.engine.list(FILE)

    def change(self, file: str, **values: int) -> None:
        self.engine.files[file] = replace(self.engine.files[file], **values)
        self.engine.list(FILE)

    def package(self, main: str = DIT) -> Package:
        return self.model.package(self.model.find(main))

    def task(self, main: str = DIT) -> TaskState | None:
        return self.model.task_of(self.package(main))

    def status(self, main: str = DIT) -> PackageState:
        return state_of(self.package(main), self.task(main))


@pytest.fixture
def both() -> Both:
    return Both()


def test_a_transformer_comes_with_what_it_cannot_work_without(both):
    assert tuple(file.id for file in both.package().files) == ORDER
    assert tuple(file.id for file in both.package(VAE).files) == (VAE,)
    assert both.model.models == ("seedvr2-3b", "seedvr2-7b", "seedvr2-7b-sharp", *WAN)
    assert [package.main.id for package in both.model.shared] == [VAE, TEXT]
    assert len(both.model.packages("seedvr2-3b")) == 4
    known = [package.main.id for package in both.model.packages("wan21-vae")]
    assert known == ["wan21-vae-fp32", "wan21-vae-16bit"]
    assert both.package("wan-2x-fp32").others == ()
    both.put(DIT)
    assert both.status() == "incomplete"
    assert both.package().lacking_mb == 501
    both.change(VAE, bytes=0, about_bytes=502 * 10**6)  # computed, for one without a published size
    assert both.package(VAE).lacking_mb == 502


def test_a_file_at_rest_stands_as_the_engine_says(both):
    for state in get_args(State):
        both.put(VAE, state)
        assert both.status(VAE) == state


def test_the_bar_of_a_model_never_goes_back(both):
    both.model.request("download", ORDER, main=DIT)
    assert both.status() == "waiting"  # before the engine answers
    for file in ORDER:
        both.engine.answer(commands.DownloadModelFile(file=file))
    shares = []
    for steps in ((0.5, 1.0), (100, 400), (1700,)):
        for megabytes in steps:
            both.engine.advance(FILE, megabytes)
            shares.append(both.task())
        assert both.status() == "running"
        assert both.status("seedvr2-7b-fp8") == "missing", "not its own progress"
        if megabytes != 1700:
            both.engine.finish(FILE)
            shares.append(both.task())
    values = [task.share for task in shares if task is not None and task.total]
    assert values == sorted(values)
    last = shares[-1]
    assert (last.done, last.total) == (1 + 500 + 1700, 3901)
    assert last.seconds_left == pytest.approx((3901 - 2201) / 12.5)
    both.engine.finish(FILE)
    assert both.status() == "here"
    assert both.task() is None


def test_two_models_share_one_download_of_the_vae(both):
    both.get()
    both.get("seedvr2-7b-fp8")
    assert both.engine.waiting(FILE) == [*ORDER, "seedvr2-7b-fp8"]
    assert both.model.stoppable(DIT) == (DIT,)  # the other one still waits for VAE and text
    assert both.model.stoppable(VAE) == (VAE,)


def test_an_error_stays_until_it_is_tried_again(both):
    both.get()
    both.engine.finish(FILE)
    both.engine.finish(FILE)
    both.engine.fail(FILE, megabytes=1204)
    assert both.status() == "failed"
    assert both.task().error == OFFLINE
    both.engine.list(FILE)
    assert both.status() == "failed"
    both.get()
    assert both.status() == "waiting"
    both.engine.advance(FILE, 2000)
    assert both.status() == "running"


def test_what_is_there_of_a_file_counts_while_it_waits_also_above_four_gigabytes(both):
    both.put(DIT, "partial", megabytes=1700)
    both.get()
    both.engine.advance(FILE, 0.5)
    assert both.task().done == 1700.5
    for _ in ORDER:
        both.engine.finish(FILE)
    both.get("seedvr2-7b-fp16")
    both.engine.advance(FILE, 9000.5)
    task = both.task("seedvr2-7b-fp16")
    assert (task.done, task.total) == (9000.5, 16400.0)


def test_an_error_of_the_vae_shows_where_a_transformer_needs_it(both):
    both.engine.put(DIT, "here")
    both.put(TEXT, "here")
    both.get()
    both.engine.fail(FILE)
    assert both.status() == "failed"
    assert both.status("seedvr2-7b-fp8") == "missing"


def test_without_an_option_the_file_that_is_here_is_taken_then_one_that_was_begun(both):
    def best(precision: str = "auto", model: str = "seedvr2-3b") -> str:
        package = both.model.best_package(model, precision)
        return package.main.id if package is not None else ""

    assert best(model="wan21-vae") == "wan21-vae-fp32"
    both.put("wan21-vae-16bit", "unverified")  # holds the same values
    assert best(model="wan21-vae") == "wan21-vae-16bit"
    assert best("q4", "wan-2x") == "wan-2x-fp32"  # an option of transformers
    assert best() == "seedvr2-3b-fp16"
    assert best("q4") == "seedvr2-3b-q4"
    assert best("int1") == ""
    both.put("seedvr2-3b-q4", "partial", megabytes=3)
    assert best() == "seedvr2-3b-q4"
    both.put("seedvr2-3b-fp8", "unverified")
    assert best() == "seedvr2-3b-fp8"


def test_a_size_that_is_not_known_is_no_division_by_zero(both):
    both.change(VAE, bytes=0)
    both.get(VAE)
    both.emit(events.TaskProgress(kind=FILE, subject=VAE, phase="download", done=12.0))
    task = both.task(VAE)
    assert (task.share, task.done) == (0.0, 12.0)
