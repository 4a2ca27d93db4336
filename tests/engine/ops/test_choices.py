from __future__ import annotations

import pytest

from engine.core.errors import ChoiceMissing
from engine.ops.choices import Choices, following, settled, uses

KEY = "attention on cuda: exact, 64"


class Device:
    """A device whose trials prefer a backend, and what it was asked to try."""

    def __init__(self, prefers: str, *works: str) -> None:
        self.prefers, self.works = prefers, (prefers, *works)
        self.asked: list[str] = []

    def choose(self) -> str:
        return settled(
            "cuda", "attention", ("exact", 64), propose=self._propose, fault_of=self._fault_of
        )

    def _propose(self) -> str:
        self.asked.append("trial")
        return self.prefers

    def _fault_of(self, name: str) -> str:
        self.asked.append(name)
        return "" if name in self.works else "it is not installed"


def test_without_a_job_a_device_chooses() -> None:
    device = Device("flash2")
    assert [device.choose(), device.choose()] == ["flash2"] * 2
    assert device.asked == ["trial"] * 2  # which keeps its results


def test_a_job_keeps_the_first_choice_and_another_device_tries_only_that() -> None:
    job = Choices()
    first, second = Device("flash2"), Device("sdpa", "flash2")
    with following(job):
        assert [first.choose(), first.choose()] == ["flash2"] * 2
    assert job.known == {KEY: "flash2"}
    with following(Choices(job.known)):
        assert [second.choose(), second.choose()] == ["flash2"] * 2
    assert (first.asked, second.asked) == (["trial"], ["flash2"])
    assert second.choose() == "sdpa"  # after the job


def test_a_device_that_cannot_is_refused_with_a_sentence_each_time() -> None:
    device = Device("sdpa")
    with following(Choices({KEY: "flash2"})):
        for _ in range(2):
            with pytest.raises(ChoiceMissing) as caught:
                device.choose()
    assert caught.value.code == "choice-missing"
    assert caught.value.message == (
        "The job was started with attention by “flash2”, which this device cannot compute: "
        "it is not installed."
    )
    assert caught.value.hint.startswith("Continue on the GPU or CPU that the job was started on")


def test_two_processes_that_choose_at_the_same_time_follow_the_first() -> None:
    job = Choices()

    def late(key: str, proposed: str) -> str:
        """The other process has chosen between the question and the proposal."""
        if proposed:
            job.agree(key, "efficient")
        return job.agree(key, proposed)

    able, unable = Device("flash2", "efficient"), Device("flash2")
    with following(Choices(ask=late)):
        assert [able.choose(), able.choose()] == ["efficient"] * 2
    assert able.asked == ["trial", "efficient"]
    with following(Choices(ask=job.agree)), pytest.raises(ChoiceMissing):
        unable.choose()
    assert unable.asked == ["efficient"]


def test_nothing_is_kept_where_no_choice_is_sound_or_nothing_is_computed() -> None:
    job, device = Choices(), Device("")
    with following(job):
        assert [device.choose(), device.choose()] == [""] * 2
        meta = settled("meta", "attention", (), propose=lambda: "sdpa", fault_of=str)
    assert meta == "sdpa"
    assert not job.known


@pytest.mark.parametrize(
    ("begun", "here", "is_used"),
    [("used", True, True), ("not used", True, False), ("not used", False, False)],
)
def test_an_operator_is_used_as_the_job_was_begun(begun: str, here: bool, is_used: bool) -> None:
    def fault() -> str:
        return "" if here else "it is wrong"

    with following(Choices({"kernel on cuda: group norm, 8": begun})):
        assert uses("cuda", "kernel", ("group norm", 8), fault) == is_used
        assert uses("cuda", "kernel", ("group norm", 4), fault) == here  # not met before


def test_an_operator_that_is_wrong_here_or_a_choice_that_is_unknown_is_refused() -> None:
    for choice, name in (("used", "group norm"), ("of another version", "of another version")):
        with (
            following(Choices({"kernel on cuda: group norm, 8": choice})),
            pytest.raises(ChoiceMissing, match=f"the kernel “{name}”"),
        ):
            uses("cuda", "kernel", ("group norm", 8), lambda: "it is wrong")
    with following(Choices({"kernel on cuda: group norm, 8": "2"})), pytest.raises(ChoiceMissing):
        uses("cuda", "kernel", ("group norm", 8), lambda: "")
