from engine.planner.notices import switch_notices
from engine.settings.schema import JobSettings


def codes(text: str, device: str, capability: tuple[int, int] | None) -> dict[str, str]:
    found = list(switch_notices(JobSettings(switches=text), device, capability))
    assert all(notice.severity == "info" for notice in found)
    return {notice.params["switch"]: notice.code for notice in found}


def test_a_switch_that_changes_the_result_is_a_notice() -> None:
    for capability in ((7, 5), (8, 6), (12, 0)):
        found = codes("dit.fp16_accumulation=on,vae.temporal_winograd=on", "cuda", capability)
        assert found == {"dit.fp16_accumulation": "switch-inexact"}


def test_what_does_nothing_here_is_told_once() -> None:
    text = "run.tf32=on,vae.cuda_graph=on,vae.in_place=off"
    nothing = "switch-without-effect"
    assert codes(text, "cpu", None) == {"run.tf32": nothing, "vae.cuda_graph": nothing}
    assert codes(text, "cuda", (7, 5)) == {"run.tf32": nothing}
    assert codes(text, "cuda", (8, 9)) == {"run.tf32": "switch-inexact"}
    assert codes("", "cpu", None) == {}
