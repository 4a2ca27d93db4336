"""Workflows, forms and hooks of the repository, which do not run here: whatever they use exists."""

import functools
import importlib.metadata
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

from engine.runtimes.catalogue import load

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".github" / "workflows"
NAMES = ("checks", "release")
ALL = (*NAMES, "codeql")  # which has no scripts
MADE_BY_A_JOB = ("dist/", "build/", "assets", "offline/", "older", ".venv/", "setup")
OUR_MODULES = ("installer.", "tests.trials.packaging.")
PERMISSIONS = {  # of jobs that need more than to read the sources
    "publish": {"contents": "write"},
    "analyze": {"actions": "read", "contents": "read", "security-events": "write"},
}
COMMAND_SEPARATORS = {"&&", "||", "|", ";", ">", "then", "fi"}


def text_of(name: str) -> str:
    return (FOLDER / f"{name}.yml").read_text(encoding="utf-8")


@functools.cache
def workflow(name: str) -> dict[Any, Any]:
    return dict(yaml.safe_load(text_of(name)))


def steps(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """All steps with their job."""
    for job, content in workflow(name)["jobs"].items():
        for step in content.get("steps", []):
            yield job, step


def scripts(name: str) -> list[str]:
    return [step["run"] for _, step in steps(name) if "run" in step]


def commands(name: str) -> Iterator[list[str]]:
    """Words of every command, without those that the shell expands at run time."""
    for script in scripts(name):
        for line in script.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            ends = [i for i, word in enumerate(words) if word in COMMAND_SEPARATORS]
            for begin, end in zip([-1, *ends], [*ends, len(words)], strict=True):
                if words[begin + 1 : end]:
                    yield words[begin + 1 : end]


def our_calls() -> list[tuple[str, ...]]:
    """Every call of our scripts: module and arguments, arrays replaced by the options in them."""
    found = set()
    for name in NAMES:
        for words in commands(name):
            for place, word in enumerate(words):
                if place and words[place - 1] == "-m" and word.startswith(OUR_MODULES):
                    rest = [option for one in words[place + 1 :] for option in listed(name, one)]
                    found.add((word, *rest))
    return sorted(found)


def listed(name: str, word: str) -> list[str]:
    """A word; for an array, the options that a script puts into it."""
    match = re.fullmatch(r"\$\{(\w+)\[@\]\}", word)
    if match is None:
        return [word]
    options = re.findall(rf"\b{match[1]}\+?=\((--\w+)", text_of(name))
    assert options, word
    return options


@functools.cache
def help_of(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *words, "--help"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


@pytest.mark.extended
def test_every_script_and_option_exists():
    calls = our_calls()
    needed = ("pin_runtime", "freeze", "build_setup", "sign_manifest", "release")
    trials = {"tests.trials.packaging.try_setup", "tests.trials.packaging.defender"}
    assert {f"installer.{name}" for name in needed} | trials <= {script for script, *_ in calls}
    for script, *words in calls:
        assert importlib.util.find_spec(script) is not None
        if not words:
            continue
        usage = help_of(script)
        parts = re.search(r"\{([\w,-]+)\}", usage)
        if parts is not None and not words[0].startswith("-"):
            assert words[0] in parts[1].split(",")
            usage = help_of(script, words[0])
        for option in (word for word in words if word.startswith("--")):
            assert re.search(rf"(?<![\w-]){option}(?![\w-])", usage), f"{script} has no {option}"
        if script == "installer.sign_manifest":
            synopsis = re.sub(r"\[[^]]*\]", "", usage.partition("\n\n")[0])
            assert set(re.findall(r"(--\w+)", synopsis)) <= set(words), "it requires more"


@pytest.mark.parametrize("name", NAMES)
def test_every_named_file_exists(name):
    named = [word for words in commands(name) for word in words]
    named += [str(step["with"].get("path", "")) for _, step in steps(name) if "with" in step]
    named = [line for word in named for line in word.splitlines()]
    paths = [w for w in named if re.fullmatch(r"\.?[\w.-]+(/[\w.-]+)+", w)]
    assert any(path.startswith(("installer/", ".ci/")) for path in paths)
    for path in paths:
        if not path.startswith(MADE_BY_A_JOB) and not path.startswith("NOTES"):
            assert (ROOT / path).exists(), path


def test_file_names_read_from_our_modules():
    (line,) = re.findall(r'python -c "(.+)"', text_of("checks"))
    done = subprocess.run(
        [sys.executable, "-c", line], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert not re.search(r"\s$", done.stdout), (
        "on Windows a carriage return would be part of the last name"
    )
    files = done.stdout.split()
    assert len(files) > 5
    assert all((ROOT / file).exists() for file in files)


@pytest.mark.programs("bash")
@pytest.mark.parametrize("name", NAMES)
def test_every_script_is_valid_bash_without_addresses(name):
    assert workflow(name)["defaults"]["run"]["shell"] == "bash"
    for script in scripts(name):
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    text = text_of(name)
    assert "://" not in text
    assert not re.search(r"\b[\w-]+\.(org|com|io|net|dev)\b|pypi|index-url|choco|npm ", text)


def test_every_workflow_is_looked_at():
    assert {path.name for path in FOLDER.iterdir()} == {f"{name}.yml" for name in ALL}


def test_actions_are_of_github_and_of_one_version():
    """Zizmor checks that each is pinned by its commit."""
    used = {line for name in ALL for line in re.findall(r"uses: (\w+/.+)", text_of(name))}
    assert {line.partition("/")[0] for line in used} == {"actions", "github"}
    assert len(used) == len({line.partition("@")[0] for line in used}), "one commit of each"
    codeql = {line.partition("@")[2] for line in used if line.startswith("github/codeql-action/")}
    assert len(codeql) == 1, "its parts refuse each other's versions"


@pytest.mark.parametrize("name", NAMES)
def test_packages_are_installed_by_their_hashes(name):
    installs = [words for words in commands(name) if "pip" in words]
    assert installs
    for words in installs:
        assert "--require-hashes" in words
        assert "--only-binary" in words


@pytest.mark.parametrize("name", ALL)
def test_jobs_have_no_permission_that_they_do_not_need(name):
    assert workflow(name)["permissions"] == {"contents": "read"}
    for job, content in workflow(name)["jobs"].items():
        assert content.get("permissions") == PERMISSIONS.get(job)
        assert "timeout-minutes" in content or "uses" in content
    checkouts = [s for _, s in steps(name) if s.get("uses", "").startswith("actions/checkout")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_code_is_analysed_at_every_change_and_every_week():
    triggers = workflow("codeql")[True]  # YAML 1.1 reads "on" as true
    assert {"push", "pull_request", "schedule"} <= set(triggers)
    (job,) = workflow("codeql")["jobs"].values()
    assert "python" in job["strategy"]["matrix"]["language"]
    used = [step["uses"].partition("@")[0] for step in job["steps"]]
    assert used == ["actions/checkout", "github/codeql-action/init", "github/codeql-action/analyze"]


def test_linux_is_tested_with_every_python_that_the_package_names():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [
        line.rpartition(" :: ")[2] for line in project["classifiers"] if ":: Python ::" in line
    ]
    assert workflow("checks")["jobs"]["python"]["strategy"]["matrix"] == {"python": named}


FORMS = {"bug": {"happened", "steps", "version"}, "measured-gpu": {"page", "values", "computer"}}


@pytest.mark.parametrize("name", FORMS)
def test_forms_for_issues_ask_for_what_an_answer_needs(name):
    folder = ROOT / ".github" / "ISSUE_TEMPLATE"
    assert {path.stem for path in folder.iterdir()} == {*FORMS, "config"}
    text = (folder / f"{name}.yml").read_text(encoding="utf-8")
    form = yaml.safe_load(text)
    assert set(form) == {"name", "description", "labels", "body"}
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert {f["type"] for f in fields} <= {"input", "textarea", "dropdown"}
    assert len({f["id"] for f in fields}) == len(fields)
    required = {f["id"] for f in fields if f.get("validations", {}).get("required")}
    assert FORMS[name] <= required
    for field in fields:
        assert field["attributes"]["label"]
        options = field["attributes"].get("options", [])
        assert bool(options) == (field["type"] == "dropdown")
        assert all(isinstance(option, str) for option in options), "YAML reads yes as true"
    for command in re.findall(r"python -m (engine [a-z]\w+)", text):
        help_of(*command.split())
    assert "://" not in text, "the address is in pyproject.toml alone"


def test_hooks_run_the_linters_in_versions_of_the_extra_dev():
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra = map(Requirement, project["optional-dependencies"]["dev"])
    dev = {one.name: one.specifier for one in extra}
    pinned = {repo["repo"].rpartition("/")[2]: repo.get("rev", "") for repo in config["repos"]}
    assert pinned["ruff-pre-commit"].removeprefix("v") in dev["ruff"]
    assert pinned["typos"].removeprefix("v") in dev["typos"]
    entries = {hook.get("entry", hook["id"]) for repo in config["repos"] for hook in repo["hooks"]}
    linters = {
        "ruff-check",
        "ruff-format",
        "typos",
        "lint-imports",
        "zizmor --offline --quiet .github",
    }
    assert linters | {f"mypy --platform {name}" for name in ("linux", "win32")} <= entries


def test_only_the_job_package_reads_secrets_which_the_document_names():
    assert not re.search(r"secrets\.\w|secrets: ", text_of("checks"))
    jobs = workflow("release")["jobs"]
    assert {name for name, job in jobs.items() if "secrets." in str(job)} == {"package"}
    assert jobs["package"]["environment"] == "release"
    assert "secrets: inherit" not in text_of("release")
    text = (ROOT / "docs" / "releasing.md").read_text(encoding="utf-8")
    texts = map(text_of, NAMES)
    named = {name for one in texts for name in re.findall(r"(?:secrets|vars)\.(\w+)", one)}
    assert named == set(re.findall(r"^\| `([A-Z_]+)` \|", text, flags=re.MULTILINE))


def test_a_release_is_made_by_a_tag_after_all_checks_for_every_runtime():
    release = workflow("release")
    assert release[True] == {"push": {"tags": ["v*"]}}  # YAML 1.1 reads "on" as true
    jobs = release["jobs"]
    assert ancestors(jobs, "publish") == set(jobs) - {"publish"}
    known = [runtime.id for runtime in load(ROOT / "resources" / "runtime.toml")]
    assert jobs["offline"]["strategy"]["matrix"] == {"runtime": known}


def test_a_release_publishes_the_program_that_every_push_packs():
    """One place where the program is packed; a tag adds a look at the pins of the runtimes."""
    packs = [name for name in NAMES for script in scripts(name) if "installer.freeze" in script]
    assert packs == ["checks"]
    program = [step for job, step in steps("checks") if job == "program" and "run" in step]
    runs = {step["run"].strip(): step for step in program}
    order = ("pin_runtime --check", "sign_manifest fill", "installer.freeze")
    places = [next(i for i, run in enumerate(runs) if word in run) for word in order]
    assert places == sorted(places), "another file in the index stops a release"
    assert runs["python -m installer.pin_runtime --check"]["if"] == "github.ref_type == 'tag'"


def test_without_any_key_there_is_a_setup_and_a_release():
    """Steps that need a secret or a variable are left out where there is none."""
    for name in NAMES:
        for _, step in steps(name):
            needed = re.findall(r"(?:secrets|vars)\.(\w+)", str(step.get("env", {})))
            if needed:
                assert "if" in step, step["name"]
    texts = [step["run"] for job, step in steps("checks") if job == "setup" and "run" in step]
    assert "--sign" not in "".join(texts)
    assert any("installer.build_setup" in text for text in texts)
    jobs = workflow("checks")["jobs"]
    assert jobs["setup"]["needs"] == "program"
    assert {"windows-program", "windows-setup"} <= set(artifacts("checks", "upload"))


def ancestors(jobs: dict[str, Any], name: str) -> set[str]:
    """All jobs that pass before this one starts."""
    needs = jobs[name].get("needs", [])
    direct = {needs} if isinstance(needs, str) else set(needs)
    return direct.union(*(ancestors(jobs, job) for job in direct))


def test_artifacts_are_made_before_they_are_used():
    jobs = workflow("release")["jobs"]
    made = {name: "checks" for name in artifacts("checks", "upload")}
    made |= {
        name.replace("${{ matrix.runtime }}", "*"): job
        for name, job in artifacts("release", "upload").items()
    }
    for job, step in steps("release"):
        if step.get("uses", "").startswith("actions/download-artifact"):
            name = step["with"].get("name") or step["with"]["pattern"]
            assert made[name] in ancestors(jobs, job)


PICTURES = """
from installer import build_setup, setup_parts
setup_parts.write_pictures(folder)
"""
SIGNATURES = """
from installer import project, release, sign_manifest
(folder / project.setup_name(project.version())).write_bytes(b"MZ")
(folder / "NOTES.md").write_text("- New.")
public = sign_manifest.make_key(folder / "key")
about = ["--notes", str(folder / "NOTES.md"), "--out", str(folder)]
setup = ["--setup", str(next(folder.glob("*.exe")))]
assert sign_manifest.main(["sign", "--key", str(folder / "key"), *setup, *about]) == 0
assert sign_manifest.main(["verify", "--public", public, str(folder / "update.json")]) == 0
"""


@pytest.mark.parametrize(
    ("name", "job", "work"),
    [("checks", "setup", PICTURES), ("release", "package", PICTURES + SIGNATURES)],
)
def test_a_job_installs_every_package_that_its_commands_import(name, job, work, tmp_path):
    """A Python that has these packages alone does what the job does with them."""
    texts = [step["run"] for where, step in steps(name) if where == job and "run" in step]
    (listed,) = re.findall(r"--print (.+) > build", "".join(texts))
    packages = tmp_path / "packages"
    packages.mkdir()
    for package in listed.split():
        tops = {file.parts[0]: file for file in importlib.metadata.files(package) or ()}
        for top, file in tops.items():
            if top != "..":
                (packages / top).symlink_to(
                    Path(str(file.locate())).parents[len(file.parts) - 1] / top
                )
    begin = f"from pathlib import Path\nfolder = Path({str(tmp_path)!r})\n"
    path = f"{packages}{os.pathsep}{ROOT}"
    environment = {"PYTHONPATH": path, "QT_QPA_PLATFORM": "offscreen", "HOME": str(tmp_path)}
    command = [sys.executable, "-S", "-c", begin + work]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr


def artifacts(name: str, verb: str) -> dict[str, str]:
    """Job of a workflow by the artifact that it uploads or downloads."""
    return {
        step["with"]["name"]: job
        for job, step in steps(name)
        if step.get("uses", "").startswith(f"actions/{verb}-artifact")
    }
