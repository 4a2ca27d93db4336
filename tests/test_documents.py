"""Documents name only what exists: paths, modules, layers, commands, options, settings, figures.

The commands of README and manual are also run, but those that wait for a user, another computer or
ten minutes.
"""

import argparse
import re
import shlex
import shutil
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path

import pytest

from engine.bench import command, run
from engine.cli import main, parser
from engine.core.errors import SettingsError
from engine.core.paths import resource
from engine.core.serialization import read_toml
from engine.farm.endpoint import JOBS_PORT, PAIRING_PORT
from engine.files import catalogue
from engine.hardware.gpu_table import gpu_specs
from engine.settings.assignments import with_text
from engine.settings.optimisations import choices, optimisations
from engine.settings.schema import IMAGE_FORMATS, VIDEO_FORMATS, JobSettings
from engine.video.write.containers import CONTAINERS, IMAGE_SUFFIXES
from tests.helpers.clips import make_clip
from tests.helpers.community import REFUSED, RUN
from tests.helpers.old_words import old_words

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")),
    *(ROOT / name for name in ("CODE_OF_CONDUCT.md", ".github/pull_request_template.md")),
    ROOT / "installer" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
TOP = r"(?:app|docs|engine|installer|resources|tests|tools|\.github|\.ci)"
PATH = re.compile(rf"(?<![\w./~-])({TOP}/[\w./*-]+)")
MODULE = re.compile(r"python3? -m ([a-z_]\w*(?:\.\w+)*)")
FILE = re.compile(r"`([\w./-]+\.(?:py|cu|toml|svg|nsi|spec))`")
LINK = re.compile(r"\]\(([^)#:]+)\)")
MADE = ("docs/notes/",)  # written for a release


def lines() -> Iterator[tuple[Path, str, str]]:
    """Each line of a document: file, where it is, text."""
    for path in DOCUMENTS:
        name = path.relative_to(ROOT).as_posix()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            yield path, f"{name}:{number}", line


def exists(name: str) -> bool:
    """Whether a path of the repository exists; `engine/core/paths` may mean `paths.py`."""
    name = name.rstrip("./")
    found = any(ROOT.glob(name)) if "*" in name else (ROOT / name).exists()
    return found or (ROOT / f"{name}.py").exists() or name.startswith(MADE)


def wrong_names(pattern: re.Pattern[str], is_right: Callable[[Path, str], bool]) -> str:
    """A line for each name in a document that is not right: is_right(document, name)."""
    return "\n".join(
        f"{where}: {name}"
        for path, where, line in lines()
        for name in pattern.findall(line)
        if not is_right(path, name)
    )


def test_paths_in_documents_exist() -> None:
    assert not wrong_names(PATH, lambda _, name: exists(name))


def test_files_in_documents_exist_somewhere() -> None:
    known = [f"/{path.relative_to(ROOT).as_posix()}" for path in ROOT.glob("*")]
    for top in ("app", "docs", "engine", "installer", "resources", "tests", "tools"):
        known += [f"/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / top).rglob("*.*")]
    assert not wrong_names(FILE, lambda _, name: any(p.endswith(f"/{name}") for p in known))


def test_manual_and_readme_have_the_words_of_the_window() -> None:
    for_users = [ROOT / "README.md", *(ROOT / "docs" / "manual").glob("*.md")]
    found = {
        where: words
        for path, where, line in lines()
        if path in for_users
        if (words := old_words(line))
    }
    assert not found


def test_links_in_documents_lead_somewhere() -> None:
    assert not wrong_names(LINK, lambda document, name: (document.parent / name).exists())


def test_modules_in_documents_can_be_run() -> None:
    def can_be_run(_: Path, name: str) -> bool:
        top, *rest = name.split(".")
        if top in ("app", "engine", "installer", "tests", "tools"):
            path = ROOT.joinpath(top, *rest)
            return path.with_suffix(".py").exists() or (path / "__main__.py").exists()
        return name in ("venv", "pip", "pytest") or find_spec(top) is not None

    assert not wrong_names(MODULE, can_be_run)


def test_the_architecture_shows_the_layers_that_the_linter_checks() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    layers = next(c["layers"] for c in contracts["contracts"] if c["name"] == "layers")
    expected = [{name.strip() for name in layer.split("|")} for layer in layers]
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    picture = text.split("## Packages and layers")[1].split("```")[1]
    found = [re.findall(r"(\w+)(?:/|\.py)(?=\s)", line) for line in picture.splitlines()]
    assert [set(names) for names in found if names and names != ["app"]] == expected


# --- commands


COMMAND = re.compile(r"(?:python3? -m engine|\bupreel(?:-cli)?) ([^`\n]*)")
COMMENT = re.compile(r"\s{2,}|\s#|\s\\?[>|]|(?:^|\s)&&")
BARE = re.compile(r"`((?:bench|doctor|measure|models|plan|upscale) [^`\[|…]+)(?<!\.\.\.)`")
EXAMPLES = ("adding-a-codec.md", "adding-a-model.md")  # of what their reader writes first


def commands() -> Iterator[tuple[str, list[str]]]:
    """Place and words of each command of the program in a document."""
    for path, where, line in lines():
        if path.name in EXAMPLES:
            continue
        for text in (*COMMAND.findall(line), *BARE.findall(line)):
            words = shlex.split(COMMENT.split(text, maxsplit=1)[0].replace("\\", "/"))
            if words and not words[0].startswith("--smoke-test"):
                yield where, words


PARSER = cache(parser.build)


def is_name(words: list[str], within: argparse.ArgumentParser) -> bool:
    """Whether words are the name of a command, or of one of its verbs."""
    found = within
    for word in words:
        known = {name: one for a in found._actions for name, one in _named(a)}
        if word not in known:
            return False
        found = known[word]
    return True


def _named(action: argparse.Action) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    if isinstance(action.choices, dict):
        yield from action.choices.items()


def fault_of(words: list[str]) -> str:
    """Mistake in a command; "" for none, also for the name of a command alone."""
    if is_name(words, PARSER()):
        return ""
    try:
        args = PARSER().parse_args(words)
        with_text(JobSettings(), getattr(args, "set", []))
        if words[0] == "bench":
            run.case_names(args.cases, command.options_of(args))
    except SystemExit as end:
        return "" if not end.code else "not understood"
    except SettingsError as err:
        return str(err)
    return ""


def test_commands_in_documents_are_understood(capsys: pytest.CaptureFixture[str]) -> None:
    found = list(commands())
    assert len(found) > 60
    wrong = [
        f"{where}: {' '.join(words)}: {fault}"
        for where, words in found
        if (fault := fault_of(words))
    ]
    assert not wrong, "\n".join(wrong)


NOT_RUN = {  # with the reason
    "machines": "waits for another computer",
    "worker": "waits for another computer",
    "measure": "takes ten minutes; tests/engine/bench/test_first_contact.py",
}


def commands_of(*names: str) -> list[list[str]]:
    """Different commands in some documents, in their order."""
    found = [words for where, words in commands() if where.partition(":")[0] in names]
    return [
        list(words)
        for words in dict.fromkeys(map(tuple, found))
        if len(words) > 1 or words[0] in ("resume", "doctor")
    ]


@pytest.mark.extended
def test_commands_of_readme_and_manual_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a short, small video; where a result is compared, it is that of an earlier command."""
    for name in ("DATA", "CACHE"):
        monkeypatch.setenv(f"UPREEL_{name}", str(tmp_path / name))
    make_clip(tmp_path / "video.mkv", frames=6)
    folder = Path("resources") / "samples"
    (tmp_path / folder).mkdir(parents=True)
    shutil.copy(ROOT / folder / "upreel_sample.mp4", tmp_path / folder)
    monkeypatch.chdir(tmp_path)
    ran = set()
    for words in commands_of("README.md", "docs/manual/en.md", "docs/manual/zh_CN.md"):
        if words[0] in NOT_RUN:
            continue
        ran.add(words[0])
        short = ["--stop", "0.2"] if "upreel_sample.mp4" in " ".join(words) else []
        status = main.main([*words, *short])
        assert status == 0, (words, capsys.readouterr())
    assert ran >= {"upscale", "plan", "probe", "verify", "resume", "models", "bench", "doctor"}
    assert (tmp_path / "upreel_sample_x2.mp4").is_file()


# --- options, settings and variables


OPTION = re.compile(r"`[^`]*?(--[a-z][a-z-]+)[^`]*`")
VARIABLE = re.compile(r"\bUPREEL_[A-Z0-9_]+\b")
SETTING = re.compile(r"`(?:--set )?([a-z_]+(?:\.[a-z0-9_]+)?)=([\w.%:-]+)`")
FOR_USERS = ("README.md", "docs/command-line.md", "docs/faq.md", "docs/seedvr2.md", "docs/wan.md")


def test_options_in_documents_for_users_exist() -> None:
    known = {"--demo", "--headless", "--no-deps"}  # of the window and of pip
    pending = [PARSER()]
    while pending:
        for action in pending.pop()._actions:
            known |= set(action.option_strings)
            pending += (one for _, one in _named(action))
    wrong = [
        f"{where}: {name}"
        for path, where, line in lines()
        if path.relative_to(ROOT).as_posix() in FOR_USERS or path.parent.name == "manual"
        for name in OPTION.findall(line)
        if name not in known
    ]
    assert not wrong


def test_variables_in_documents_are_read_by_the_program() -> None:
    code = "".join(
        path.read_text("utf-8") for top in ("engine", "app") for path in (ROOT / top).rglob("*.py")
    )
    switches = {entry.variable for entry in (*optimisations(), *choices())}
    assert not wrong_names(VARIABLE, lambda _, name: name in switches or name in code)


def test_settings_in_documents_can_be_made() -> None:
    switch_keys = {entry.key.partition(".")[0] for entry in optimisations()}
    wrong = []
    for path, where, line in lines():
        is_code = path.name == "python.md"  # arguments of Python, which its own test tries
        if is_code or path.name.startswith("adding-a-") or "benchmarks" in path.parts:
            continue
        for name, value in SETTING.findall(line):
            text = f"{name}={value}"
            if name.partition(".")[0] in switch_keys or name == "all":
                text = f"switches={text}"
            try:
                with_text(JobSettings(), [text])
            except SettingsError as err:
                wrong.append(f"{where}: {text}: {err}")
    assert not wrong, "\n".join(wrong)


CODECS = {"H.264": "h264", "HEVC": "hevc", "AV1": "av1", "VP9": "vp9"}
CODECS |= {"ProRes": "prores", "FFV1": "ffv1"}


def test_the_table_of_formats_is_that_of_the_program() -> None:
    text = (ROOT / "docs" / "command-line.md").read_text("utf-8")
    table = text.partition("| format | name |")[2].partition("\n\n")[0].splitlines()[2:]
    rows = {row.split("`")[1]: row.strip("|").split("|") for row in table}
    assert list(rows) == [*VIDEO_FORMATS, *IMAGE_FORMATS]
    for name, (_, suffixes, video, *_others) in rows.items():
        named = tuple(re.findall(r"`(\.\w+)`", suffixes))
        if name in IMAGE_FORMATS:
            assert set(named) == {one for one, codec in IMAGE_SUFFIXES.items() if codec == name}
            continue
        codecs = {CODECS[one] for one in re.findall("|".join(CODECS), video)}
        assert (named, codecs) == (CONTAINERS[name].suffixes, CONTAINERS[name].picture), name


# --- where statements are tried


EVIDENCE = Path(__file__).with_name("evidence.toml")
MARKS = re.compile(r"^(?:- |\d+\. |\| )|\*\*|`")


def statements(name: str) -> Iterator[str]:
    """Paragraphs, list items and rows of a document, without headings, pictures and commands."""
    text = re.sub(r"```.*?```", "", (ROOT / name).read_text("utf-8"), flags=re.DOTALL)
    for block in re.split(r"\n\s*\n|\n(?=- |\d+\. |\| )", text.split("\n## Documents\n")[0]):
        line = " ".join(block.split())
        if line and not line.startswith(("#", "![", "| |", "| symptom", "|---")):
            yield MARKS.sub("", line)


def test_every_statement_of_readme_and_manual_has_tests_that_try_it() -> None:
    """A statement and its row follow each other; a test that was renamed or removed is missed."""
    without = []
    for document, rows in read_toml(EVIDENCE).items():
        found = list(statements(document))
        unlike = [pair for pair in zip_longest(found, rows, fillvalue="") if not is_begun(*pair)]
        assert not unlike, (document, unlike[0])
        without += [key for key, tests in rows.items() if not tests]
        for test in {one for tests in rows.values() for one in tests}:
            path, _, name = test.partition("::")
            code = ROOT.joinpath("tests", path).read_text("utf-8")
            assert f"\ndef {name}(" in code or f"\nasync def {name}(" in code, test
    assert without == ["Clone the repository."]


def is_begun(statement: str, key: str) -> bool:
    """Whether a statement begins with a key."""
    return bool(key) and statement.startswith(key)


# --- figures


def figures() -> dict[str, tuple[str, ...]]:
    """Pattern of a statement, and the figures that it may have."""
    runtimes = read_toml(resource("runtime.toml"))["runtimes"]
    newest, oldest = (sum(wheel["bytes"] for wheel in one["wheels"]) / 1e9 for one in runtimes)
    drivers = tuple(one["driver"].removesuffix(".0") for one in runtimes)
    presets = read_toml(resource("presets", "gpu.toml"))
    sizes = tuple(str(presets[goal]["working_size"]) for goal in ("fast", "balanced", "best"))
    published = catalogue.catalogue().files
    files = {one.id: (one.bytes or one.about_bytes) / 1e9 for one in published}
    smallest = min(size for name, size in files.items() if size and "7b-sharp" in name)
    sources = (ROOT / "docs" / "fidelity.md").read_text("utf-8")
    (count,) = re.findall(r"^(\d+) sources, 0 with", sources, re.MULTILINE)
    return {
        r"plans for (\d+) GPUs": (str(len(gpu_specs())),),
        r"and (\d+) architectures of community models": (str(len(RUN)),),
        r"Upreel runs the (\d+) that": (str(len(RUN)),),
        r"recognises (\d+) architectures": (str(len(RUN) + len(REFUSED)),),
        r"tests (\d+) kinds of sources": (count,),
        r"driver (?:version )?([\d.]+) or newer": drivers,
        r"NVIDIA runtime(?:\*\*)?, (?:a download of )?([\d.]+) GB": (f"{newest:.1f}",),
        r"it is larger \(([\d.]+) GB\)": (f"{oldest:.1f}",),
        r"SeedVR2 7B sharp, from ([\d.]+) GB": (f"{smallest:.1f}",),
        r"with its VAE, ([\d.]+) GB": (f"{files['seedvr2-vae-fp16']:.1f}",),
        r"ports (\d+) and \d+": (str(JOBS_PORT),),
        r"ports \d+ and (\d+)": (str(PAIRING_PORT),),
        r"working size of (\d+), \d+ and \d+ %": sizes[:1],
        r"working size of \d+, (\d+) and \d+ %": sizes[1:2],
        r"working size of \d+, \d+ and (\d+) %": sizes[2:],
    }


def test_figures_in_documents_are_those_of_the_program() -> None:
    texts = {path: " ".join(path.read_text("utf-8").split()) for path in DOCUMENTS}
    for pattern, right in figures().items():
        found = {
            (path.name, one) for path, text in texts.items() for one in re.findall(pattern, text)
        }
        assert found, pattern
        assert {one for _, one in found} <= set(right), (pattern, found)


def predicted() -> Iterator[tuple[int, dict[str, float]]]:
    """Memory of each GPU of docs/presets.md in GB, and its fps by column, as "1080p Best"."""
    for section in (ROOT / "docs" / "presets.md").read_text("utf-8").split("\n## ")[1:]:
        memory = re.match(r"(\d+) GB\n", section)
        rows = [line.strip("|").split("|") for line in section.splitlines() if line[:1] == "|"]
        names: list[str] = []
        for cells in ([cell.strip() for cell in row] for row in rows):
            if cells[0] == "fps":
                names = cells
            elif names and memory and cells[0][:3] in ("RTX", "TIT"):
                pairs = zip(names[1:], cells[1:], strict=True)
                yield int(memory[1]), {name: float(cell) for name, cell in pairs if cell != "-"}


def test_words_about_predicted_speeds_are_those_of_the_plans() -> None:
    """FAQ, README and docs/seedvr2.md: which sizes fit, and how the presets differ."""
    gpus = list(predicted())
    assert len(gpus) == len(gpu_specs())
    for memory, fps in gpus:
        assert memory < 6 or "1080p Best" in fps, "6 GB of VRAM for 1080p"
        assert memory < 8 or "4K Best" in fps, "8 GB for 4K"
        if "1080p Best" in fps:
            best = fps["1080p Best"]
            assert best / fps["1080p Fast"] < 0.5, "Fast takes less than half the time of Best"
            assert best / fps["1080p Balanced"] == pytest.approx(2 / 3, abs=0.06), "two thirds"
            assert best / fps["1080p 3B"] > 0.88, "3B saves about a tenth of the time at most"
    faq = " ".join((ROOT / "docs" / "faq.md").read_text("utf-8").split())
    several = (ROOT / "docs" / "several-gpus.md").read_text("utf-8")
    for gpu in ("RTX 4090", "RTX 3060"):
        row = rf"\| {gpu} \+ {gpu} \| seedvr2-7b-sharp, 1080 px \| (\d+) min"
        (minutes,) = re.findall(row, several)
        said = re.search(rf"(\d+) hours on an {gpu}", faq)
        assert said is not None
        assert round(int(minutes) / 60) == int(said[1]), gpu


def test_systems_and_packages_are_those_of_the_setup() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    setup = (ROOT / "installer" / "setup.nsi").read_text("utf-8")
    assert "version 1809 or newer" in readme
    assert "!define OLDEST_BUILD 17763 ; Windows 10 1809" in setup
    oldest = project["project"]["requires-python"].split(",")[0].removeprefix(">=")
    assert f"Python {oldest} or 3.12" in readme
    pinned = set(re.findall(r"spandrel==([\d.]+)", readme))
    community = (ROOT / "docs" / "community-models.md").read_text("utf-8")
    assert pinned == set(re.findall(r"spandrel ([\d.]+) recognises", community))
    assert len(re.findall(r"^## \d+\. ", (ROOT / "docs" / "faq.md").read_text("utf-8"), re.M)) == 10
