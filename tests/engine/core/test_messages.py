import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from engine.cli import parser
from engine.core import errors, messages
from engine.core.messages import (
    FIELDS,
    LANGUAGES,
    Message,
    catalogue,
    message,
    read_entries,
    text_of,
)
from engine.core.paths import resource
from tests.helpers.old_words import old_words

ROOT = Path(__file__).parents[3]
PLACEHOLDER = re.compile(r"\{(\w+)")
ERRORS = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.EngineError)
}
ERROR_CODES = {kind.code for kind in ERRORS.values()}
NAMED = re.compile(rf"\b(?:Notice|message|Message|{'|'.join(ERRORS)})\(")


def placeholders(entry: dict[str, str]) -> set[str]:
    found = {name for field in entry.values() for name in PLACEHOLDER.findall(field)}
    return found - {"interface"}


@cache
def calls() -> list[tuple[str, ast.Call]]:
    return list(_calls())


def _calls() -> Iterator[tuple[str, ast.Call]]:
    for path in sorted((ROOT / "engine").rglob("*.py")):
        text, place = path.read_text("utf-8"), path.relative_to(ROOT)
        if NAMED.search(text):
            yield from (
                (f"{place}:{node.lineno}", node)
                for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.Call)
            )


def literal(node: ast.expr | None) -> str | None:
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return node.value if is_text else None


def code_of(call: ast.Call) -> str | None:
    """The message code of an error, a notice or a message with a literal code."""
    name = getattr(call.func, "id", getattr(call.func, "attr", ""))
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    first = literal(call.args[0]) if call.args else None
    if name in ERRORS and (not call.args or first is not None):
        return ".".join(filter(None, (ERRORS[name].code, first)))
    if name == "Notice" and (code := literal(given.get("code"))):
        found = ".".join(filter(None, (code, literal(given.get("case")))))
        if "case" in given and literal(given["case"]) is None:
            return None  # one of several cases
        return found if code in ERROR_CODES else f"notice.{found}"
    if name in ("message", "Message") and first:
        return first
    return None


def values_of(call: ast.Call) -> set[str] | None:
    """Names of the values that a call gives; None where they are not written out."""
    given: set[str] = set()
    for keyword in call.keywords:
        if keyword.arg is None:
            return None
        if keyword.arg == "params":
            if not isinstance(keyword.value, ast.Dict):
                return None
            keys = [literal(key) for key in keyword.value.keys]
            if None in keys:
                return None
            given |= set(filter(None, keys))
        else:
            given.add(keyword.arg)
    return given


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_every_code_has_every_language_with_the_same_placeholders(language: str) -> None:
    english, other = read_entries("en"), read_entries(language)
    assert list(english) == list(other)
    for code, entry in english.items():
        assert entry.keys() == other[code].keys(), code
        assert placeholders(entry) == placeholders(other[code]), code


def test_every_code_in_the_engine_is_in_the_catalogue_and_is_filled() -> None:
    entries = read_entries("en")
    for place, call in calls():
        code = code_of(call)
        if code is None:
            continue
        assert "text" in entries.get(code, {}), f"{place}: no text for {code}"
        given = values_of(call)
        if given is not None:
            lacking = placeholders(entries[code]) - given
            assert not lacking, f"{place}: {code} needs {lacking}"


def test_every_error_class_has_a_title() -> None:
    for kind in ERRORS.values():
        assert catalogue("en", "python").title(kind.code), kind.code


def test_values_messages_and_lists_are_rendered_in_the_language(
    tmp_path: Path, expected_log_errors: list[str]
) -> None:
    expected_log_errors.append("no text for the message gone")
    (tmp_path / "en.toml").write_text(
        '[a]\ntext = "{what} of {count:{count} alone|{count}}"\n[b]\ntext = "two"\n[list]\n'
        'separator.text = ", "\n',
        "utf-8",
    )
    (tmp_path / "zh_CN.toml").write_text(
        '[a]\ntext = "{count}之{what}"\n[list]\nseparator.text = ", "\n', "utf-8"
    )
    with messages.added(tmp_path):
        inner = Message("b")
        assert text_of(message("a", what=inner, count=3)) == "two of 3"
        assert text_of(message("a", what=("x", inner), count=3), "zh_CN") == "3之x, two"
        assert text_of(message("a", what="x", count=1)) == "x of 1 alone"
        assert text_of(message("a", what="x", count=1), "zh_CN") == "1之x"
        assert text_of(message("gone")) == "gone"


@pytest.mark.parametrize("language", LANGUAGES)
def test_tables_that_are_read_one_by_one_are_those_of_the_whole_file(language: str) -> None:
    whole = tomllib.loads(resource("messages", f"{language}.toml").read_text("utf-8"))
    for code, entry in read_entries(language).items():
        table = whole
        for name in code.split("."):
            table = table[name]
        assert entry == {name: table[name] for name in FIELDS if name in table}, code
    assert {code.partition(".")[0] for code in read_entries(language)} == whole.keys()


CODE = re.compile(r"`python[^`]*`")
FORMS = re.compile(r"\{interface:((?:[^{}]|\{\w+\})*)\}")


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_option_is_named_to_users_of_the_command_line_alone(language: str) -> None:
    wrong = []
    for code, entry in read_entries(language).items():
        for field in (entry.get("text", ""), entry.get("hint", "")):
            forms = [found.split("|") for found in FORMS.findall(field)]
            assert all(2 <= len(one) <= 3 for one in forms), code
            assert field.count("{interface:") == len(forms), code
            others = [FORMS.sub("", field), *(form for one in forms for form in one[1:])]
            wrong += [code for one in others if re.search(r"(?<![-\w])--[a-z]", CODE.sub("", one))]
    of_commands = ("engine/cli", "engine/bench")
    places = [(code_of(call), place) for place, call in calls()]
    raised = {code for code, place in places if not place.startswith(of_commands)}
    assert not raised.intersection(wrong)


def test_a_hint_has_the_words_of_its_reader() -> None:
    found = message("plan-does-not-fit.encoding", size="9 GB")
    with messages.for_command_line():
        assert str(found.hint).endswith("choose the CPU: --set device=cpu.")
    assert str(found.hint).endswith('choose the CPU: device="cpu".')
    assert catalogue("en", "window").hint(found).endswith("choose the CPU.")
    missing = message("weights-missing.model", file="vae", title="VAE", size="", time="", speed="")
    assert "python -m engine models download vae`" in str(missing.hint)
    assert catalogue("zh_CN", "window").hint(missing) == "请按“下载并开始”，或选择内置模型 Lite。"


# Names that a user types: options, commands, and values of settings.
NAMES = re.compile(
    r"--\w+|python -m engine machines|^ +machines? |fields, film\)|^ +machines=\w+", re.M
)


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_message_has_an_old_word(language: str) -> None:
    for code, entry in read_entries(language).items():
        assert not old_words(" ".join(entry.values())), code


def test_no_help_text_has_an_old_word() -> None:
    parsers = [parser.build()]
    for one in parsers:  # grows while it is read
        assert not old_words(NAMES.sub("", one.format_help())), one.prog
        choices = [action.choices or {} for action in one._actions]
        parsers += [sub for found in choices if isinstance(found, dict) for sub in found.values()]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("code", ["unknown-job.none-unfinished", "unknown-weights.no-conversion"])
def test_a_hint_of_what_the_window_can_meet_names_no_command(language: str, code: str) -> None:
    about = Message(code, {"job": "a", "file": "b"})
    assert "`" in catalogue(language, "command-line").hint(about)
    assert "`" not in catalogue(language, "window").hint(about)
