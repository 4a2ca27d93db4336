import dataclasses

from engine.core.errors import ErrorInfo
from engine.protocol import commands
from engine.protocol.plan import Notice
from engine.settings.schema import JobSettings
from tests.app.conftest import Bench, texts
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


def finish(bench: Bench) -> None:
    while bench.engine.tasks.waiting(FILE):
        bench.engine.tasks.finish(FILE)
        bench.hear()
    bench.hear()  # what was answered while we listened


def test_a_refused_film_gets_its_model_by_one_button_and_is_planned_again(bench):
    job_id = refused(bench)
    assert bench.find("planHelp").text() == "Get the model"
    assert not bench.find("primaryAction").isEnabled()
    assert "SeedVR2 3B has to be downloaded first: 7.3 GB" in texts(bench.window)
    assert "models download" not in texts(bench.window)
    bench.press("planHelp")
    assert bench.program.models.view.isVisible()
    assert fetched(bench) == ["seedvr2-text", "seedvr2-vae", "seedvr2-3b-fp16"]
    planned = len(bench.asked(commands.ChangeJob))
    bench.engine.notices = ()
    finish(bench)
    again = bench.asked(commands.ChangeJob)[planned:]
    assert [command.job_id for command in again] == [job_id]  # once, not after every file
    assert bench.find("primaryAction").isEnabled()


def test_for_an_automatic_model_the_files_of_the_refusal_are_fetched(bench):
    files = ("seedvr2-3b-q8", "seedvr2-vae", "seedvr2-text")
    refused(bench, to_download(files=",".join(files), file=files[0]), model="auto")
    bench.press("planHelp")
    assert sorted(fetched(bench)) == sorted(files)


def test_what_was_begun_is_finished_unless_another_precision_is_wanted(bench):
    bench.engine.tasks.put("seedvr2-3b-q8", "partial", megabytes=12)
    bench.engine.tasks.list(FILE)
    for precision, file in (("auto", "seedvr2-3b-q8"), ("q4", "seedvr2-3b-q4")):
        refused(bench, precision=precision)
        bench.do("get-model")
        assert fetched(bench)[-1] == file


def test_for_a_film_with_an_own_file_only_what_the_refusal_names_is_fetched(bench):
    refused(bench, dit="/mine.safetensors")
    bench.do("get-model")
    assert fetched(bench) == []
    assert bench.program.models.view.isVisible()
    named = {**REFUSAL.params, "files": "seedvr2-vae, seedvr2-text"}
    refused(bench, dataclasses.replace(REFUSAL, params=named), dit="/mine.safetensors")
    bench.do("get-model")
    assert fetched(bench) == ["seedvr2-vae", "seedvr2-text"]


def test_a_film_that_was_turned_away_for_want_of_a_model_comes_back(bench):
    bench.engine.reject["film.mp4"] = ErrorInfo(
        code="weights-missing", case="no-file", params={"name": "a.safetensors"}
    )
    bench.program.controller.settings = JobSettings(model="seedvr2-3b")
    bench.add()
    assert bench.find("errorAction").text() == "Get the model"
    bench.press("errorAction")
    bench.engine.reject.clear()
    finish(bench)
    assert [row.state.value for row in bench.program.queue.rows] == ["waiting"]


def test_other_refusals_are_left_alone(bench):
    about = {"case": "before-start", "params": {"name": "film_x2.mp4"}}
    refused(bench, Notice(code="output-exists", severity="refusal", **about))
    planned = len(bench.asked(commands.ChangeJob))
    bench.program.models.open_view()
    bench.program.models.view.act("get", "seedvr2-3b-fp8")
    finish(bench)
    assert len(bench.asked(commands.ChangeJob)) == planned


def test_what_is_here_shows_in_the_choice_of_the_engine(bench):
    box = bench.find("setting-model")
    assert box.itemText(2) == "SeedVR2 3B · 7.3 GB to fetch"
    bench.engine.tasks.put_package("seedvr2-3b-q4")
    bench.engine.tasks.list(FILE)
    bench.hear()
    assert box.itemText(2) == "SeedVR2 3B · here"
    assert box.itemText(3) == "SeedVR2 7B · 16.4 GB to fetch"


def test_latents_that_shall_be_upscaled_get_the_files_of_both_models(bench):
    named = dataclasses.replace(REFUSAL, params={**REFUSAL.params, "files": "wan21-vae-fp32"})
    bench.engine.tasks.put_package("seedvr2-3b-fp8")
    bench.engine.tasks.list(FILE)
    refused(bench, named)
    bench.do("get-model")
    assert fetched(bench) == ["wan21-vae-fp32"]
    refused(bench, named, model="seedvr2-7b", precision="q4")
    bench.do("get-model")
    assert fetched(bench) == ["wan21-vae-fp32", "seedvr2-7b-q4"]
