from dataclasses import replace

from engine.core.errors import ErrorInfo
from engine.protocol import commands
from engine.protocol.model_file_state import Converted
from engine.protocol.plan import Notice
from engine.settings.schema import JobSettings
from tests.app.conftest import Bench
from tests.helpers.fake_tasks import FILE
from tests.helpers.plans import to_download

REFUSAL = to_download(file="a")


def refused(bench: Bench, notice: Notice = REFUSAL, **choices: object) -> str:
    bench.engine.notices = (notice,)
    job_id = bench.add()
    bench.choose(**{"model": "seedvr2-3b"} | choices)
    return job_id


def fetched(bench: Bench) -> list[str]:
    return [command.file for command in bench.asked(commands.DownloadModelFile)]


def test_a_refusal_that_names_no_file_of_the_list_leads_to_the_list(bench):
    refused(bench, dit="/mine.safetensors")
    assert bench.find("planHelp").text() == "Show the models"
    bench.press("planHelp")
    assert fetched(bench) == []
    assert bench.program.models.view.isVisible()


def test_a_film_that_was_turned_away_for_want_of_a_model_comes_back(bench):
    bench.engine.reject["film.mp4"] = ErrorInfo(
        code="weights-missing", case="no-file", params={"name": "a.safetensors"}
    )
    bench.program.controller.settings = JobSettings(model="seedvr2-3b")
    bench.add()
    assert bench.find("errorAction").text() == "Show the models"
    bench.press("errorAction")
    bench.program.models.act("download", "seedvr2-3b-fp16")
    bench.engine.reject.clear()
    bench.finish_files()
    assert [row.state.value for row in bench.program.queue.rows] == ["waiting"]


def test_other_refusals_are_left_alone(bench):
    about = {"case": "before-start", "params": {"name": "film_x2.mp4"}}
    refused(bench, Notice(code="output-exists", severity="refusal", **about))
    planned = len(bench.asked(commands.ChangeJob))
    bench.program.models.open_view()
    bench.program.models.act("download", "seedvr2-3b-fp8")
    bench.finish_files()
    assert len(bench.asked(commands.ChangeJob)) == planned


def test_what_is_here_shows_in_the_choice_of_the_engine(bench):
    box = bench.find("setting-model")
    assert box.itemText(3) == "SeedVR2 3B · 7.3 GB to download"
    bench.engine.tasks.put_package("seedvr2-3b-q4")
    bench.tasks.list(FILE)
    assert box.itemText(3) == "SeedVR2 3B · installed"
    assert box.itemText(4) == "SeedVR2 7B · 16.4 GB to download"


def test_a_file_with_another_format_is_converted_once_agreed(bench, monkeypatch):
    tasks, models = bench.engine.tasks, bench.program.models
    file = tasks.files["seedvr2-3b-fp16"]
    formats = (Converted(format="int8", bytes=4_750_000_000),)
    tasks.files[file.id] = replace(file, converts_to=formats)
    tasks.put_package(file.id)
    bench.tasks.list(FILE)
    asked: list[tuple[str, ...]] = []

    def confirmed(_parent: object, question: str, details: str, **_buttons: str) -> bool:
        asked.append((question, details))
        return len(asked) > 1

    monkeypatch.setattr("app.controllers.models.is_confirmed", confirmed)
    for _ in range(2):
        models.act("convert", file.id)
    (command,) = bench.asked(commands.ConvertModelFile)
    assert (command.file, command.format, command.removes) == (file.id, "", False)
    assert "takes 4.8 GB more" in asked[0][1]
