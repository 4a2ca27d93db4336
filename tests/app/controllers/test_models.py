from __future__ import annotations

import dataclasses

from PySide6.QtWidgets import QComboBox, QLabel

from engine.protocol import commands
from engine.protocol.plan import Notice
from engine.settings.schema import JobSettings
from tests.app.conftest import Bench
from tests.helpers.fake_tasks import FILE

REFUSAL = Notice(
    code="weights-missing",
    case="model",
    severity="refusal",
    params={"names": "a.safetensors, b.pt", "file": "a"},
)


def refused(bench: Bench, notice: Notice = REFUSAL, **choices: object) -> str:
    bench.engine.notices = (notice,)
    job_id = bench.add()
    bench.window.choices.choose({"model": "seedvr2-3b"} | choices)
    bench.hear()
    return job_id


def fetched(bench: Bench) -> list[str]:
    return [command.file for command in bench.engine.asked(commands.DownloadModelFile)]


def finish(bench: Bench) -> None:
    while bench.engine.tasks.waiting(FILE):
        bench.engine.tasks.finish(FILE)
        bench.hear()
    bench.hear()  # what was answered while we listened


def test_the_window_asks_what_is_here_at_the_start(bench: Bench) -> None:
    assert bench.engine.asked(commands.ListModelFiles)
    assert bench.program.model_files.is_known


def test_a_refused_film_gets_its_model_by_one_button_and_is_planned_again(bench: Bench) -> None:
    job_id = refused(bench)
    assert bench.button("planHelp").text() == "Get the model"
    assert not bench.button("primaryAction").isEnabled()
    bench.button("planHelp").click()
    bench.hear()
    assert bench.program.models.view.isVisible()
    assert fetched(bench) == ["seedvr2-text", "seedvr2-vae", "seedvr2-3b-fp16"]
    planned = len(bench.engine.asked(commands.ChangeJob))
    bench.engine.notices = ()
    finish(bench)
    again = bench.engine.asked(commands.ChangeJob)[planned:]
    assert [command.job_id for command in again] == [job_id]  # once, not after every file
    assert bench.button("primaryAction").isEnabled()


def test_the_wanted_precision_is_fetched(bench: Bench) -> None:
    refused(bench, precision="q4")
    bench.do("get-model")
    assert fetched(bench)[-1] == "seedvr2-3b-q4"


def test_what_was_begun_is_finished_first(bench: Bench) -> None:
    bench.engine.tasks.put("seedvr2-3b-q8", "partial", megabytes=12)
    bench.engine.tasks.list(FILE)
    refused(bench)
    bench.do("get-model")
    assert fetched(bench)[-1] == "seedvr2-3b-q8"


def test_files_that_the_refusal_names_are_fetched_where_the_choices_do_not_tell(
    bench: Bench,
) -> None:
    named = {**REFUSAL.params, "files": "seedvr2-vae, seedvr2-text"}
    refused(bench, dataclasses.replace(REFUSAL, params=named), dit="/mine.safetensors")
    bench.do("get-model")
    assert fetched(bench) == ["seedvr2-vae", "seedvr2-text"]


def test_nothing_is_fetched_for_a_film_with_a_file_of_its_own(bench: Bench) -> None:
    refused(bench, dit="/gone.safetensors")
    bench.do("get-model")
    assert fetched(bench) == []
    assert bench.program.models.view.isVisible()


def test_a_film_that_was_turned_away_for_want_of_a_model_comes_back(bench: Bench) -> None:
    from engine.core.errors import ErrorInfo

    bench.engine.reject["film.mp4"] = ErrorInfo(
        code="weights-missing", case="no-file", params={"name": "a.safetensors"}
    )
    bench.program.controller.settings = JobSettings(model="seedvr2-3b")
    bench.add()
    assert bench.button("errorAction").text() == "Get the model"
    bench.button("errorAction").click()
    bench.hear()
    bench.engine.reject.clear()
    finish(bench)
    assert [row.state.value for row in bench.program.queue.rows] == ["waiting"]


def test_other_refusals_are_left_alone(bench: Bench) -> None:
    params = {"name": "film_x2.mp4"}
    refused(
        bench,
        Notice(code="output-exists", case="before-start", severity="refusal", params=params),
    )
    planned = len(bench.engine.asked(commands.ChangeJob))
    bench.program.models.open_view()
    bench.program.models.view.act("get", "seedvr2-3b-fp8")
    finish(bench)
    assert len(bench.engine.asked(commands.ChangeJob)) == planned


def test_what_is_here_shows_in_the_choice_of_the_engine(bench: Bench) -> None:
    box = bench.find("setting-model")
    assert isinstance(box, QComboBox)
    assert box.itemText(2) == "SeedVR2 3B · 7.3 GB to fetch"
    bench.engine.tasks.put_package("seedvr2-3b-q4")
    bench.engine.tasks.list(FILE)
    bench.hear()
    assert box.itemText(2) == "SeedVR2 3B · here"
    assert box.itemText(3) == "SeedVR2 7B · 16.4 GB to fetch"


def test_names_of_missing_files_do_not_fill_the_plan(bench: Bench) -> None:
    refused(bench)
    texts = [label.text() for label in bench.window.findChildren(QLabel) if label.isVisible()]
    assert "The model is not on this machine yet" in texts
    assert not any("a.safetensors" in text for text in texts)


def test_wan_2x_is_fetched_by_the_button_that_helps(bench: Bench) -> None:
    refused(bench, model="wan-2x", dit="/of/seedvr2.safetensors", precision="q4")
    bench.button("planHelp").click()
    bench.hear()
    assert fetched(bench) == ["wan-2x-fp32"]
    bench.engine.notices = ()
    finish(bench)
    assert bench.button("primaryAction").isEnabled()


def test_latents_that_shall_be_upscaled_get_the_files_of_both_models(bench: Bench) -> None:
    named = dataclasses.replace(REFUSAL, params={**REFUSAL.params, "files": "wan21-vae-fp32"})
    bench.engine.tasks.put_package("seedvr2-3b-fp8")
    bench.engine.tasks.list(FILE)
    refused(bench, named)
    bench.do("get-model")
    assert fetched(bench) == ["wan21-vae-fp32"]
    refused(bench, named, model="seedvr2-7b", precision="q4")
    bench.do("get-model")
    assert fetched(bench) == ["wan21-vae-fp32", "seedvr2-7b-q4"]


def test_the_file_that_the_plan_chose_for_the_card_is_fetched(bench: Bench) -> None:
    params = {"files": "seedvr2-3b-q4,seedvr2-vae,seedvr2-text"}
    orders = bench.program.models
    assert orders.get_for(JobSettings(model="seedvr2-3b"), params) == "seedvr2-3b-q4"
