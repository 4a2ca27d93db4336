from engine.core.messages import Message, message, text_of
from engine.verify.phrases import alternatives, clauses, sentences

PARTS = [message("reading.frames-damaged", count=number) for number in range(5)]


def test_the_first_parts_are_in_full_and_the_others_counted() -> None:
    assert str(sentences(PARTS[:2])) == " ".join(map(str, PARTS[:2]))
    assert str(clauses(PARTS[:1])) == str(PARTS[0])
    assert str(clauses(PARTS)) == "; ".join([*map(str, PARTS[:3]), "and 2 more"])
    assert str(alternatives(["tv", Message("check.tags.untagged"), "pc"])) == "tv or nothing or pc"
    assert text_of(clauses(PARTS[:2]), "zh_CN").count("；") == 1
