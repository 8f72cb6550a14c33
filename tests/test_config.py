"""One config, three spellings: what each says, who wins, and what is refused in which words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pyio_trace.config import OPTIONS, Config, enabled, load
from pyio_trace.errors import ConfigError


@pytest.fixture
def nowhere(tmp_path: Path) -> str:
    """A folder without a pyproject.toml of its own; one above stops the search there."""
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    (tmp_path / "a" / "b").mkdir(parents=True)
    return str(tmp_path / "a" / "b")


def project(folder: str, text: str) -> None:
    (Path(folder) / "pyproject.toml").write_text("[tool.pyio_trace]\n" + text)


def slug(problem: pytest.ExceptionInfo[ConfigError]) -> str:
    return problem.value.slug


def test_defaults_are_those_of_the_table(nowhere: str) -> None:
    config = load({}, {}, nowhere)
    assert config == Config()
    for option in OPTIONS:
        assert getattr(config, option.name) == option.default


def test_precedence(nowhere: str) -> None:
    project(nowhere, 'stacks = "site"\nquiet = true\nmax-log-size = "1G"\n')
    environ = {"PYIO_TRACE_STACKS": "off", "PYIO_TRACE_MAX_LOG_SIZE": "2G"}
    config = load({"max_log_size": "3G"}, environ, nowhere)
    assert (config.quiet, config.stacks, config.max_log_size) == (True, "off", 3 << 30)


def test_the_nearest_pyproject_counts_and_its_output_is_relative_to_it(nowhere: str) -> None:
    above = str(Path(nowhere).parent)
    project(above, 'output = "logs/run.pyio"\n')
    assert load({}, {}, nowhere).output == f"{above}/logs/run.pyio"
    assert load({"output": "mine.pyio"}, {}, nowhere).output == "mine.pyio"


def test_environment_round_trip() -> None:
    config = Config(output="x-%p.pyio", quiet=True, stacks="site", follow="none", max_log_size=1 << 30)
    environ = config.to_environment()
    assert Config.from_environment(environ) == config
    assert enabled(environ)
    assert Config.from_environment(Config().to_environment()) == Config()


def test_a_child_is_not_told_otherwise_by_a_pyproject(nowhere: str) -> None:
    project(nowhere, 'stacks = "off"\n')
    assert load({}, Config().to_environment(), nowhere).stacks == "full"


def test_frozen() -> None:
    config = Config()
    with pytest.raises(AttributeError):
        config.quiet = True
    with pytest.raises(AttributeError):
        del config.quiet
    assert hash(config) == hash(Config())
    assert "stacks='full'" in repr(config)


@pytest.mark.parametrize(("word", "on"), [("1", True), ("TRUE", True), ("on", True), ("yes", True), ("0", False),
                                          ("", False), ("off", False), ("False", False)])  # fmt: skip
def test_the_switch(word: str, on: bool) -> None:
    assert enabled({"PYIO_TRACE": word}) is on


def test_the_switch_neither_on_nor_off() -> None:
    with pytest.raises(ConfigError, match="neither on nor off") as problem:
        enabled({"PYIO_TRACE": "maybe"})
    assert slug(problem) == "bad-value"
    assert enabled({}) is False


@pytest.mark.parametrize(
    ("environ", "slug_expected", "words"),
    [
        ({"PYIO_TRACE_OUTPTU": "x"}, "unknown-option", "did you mean PYIO_TRACE_OUTPUT?"),
        ({"PYIO_TRACE_MODE": "rings"}, "bad-value", "did you mean ring?"),
        ({"PYIO_TRACE_EXCLUDE": "lyer:app"}, "bad-rule", "did you mean layer?"),
        ({"PYIO_TRACE_EXCLUDE": "layer:posx"}, "bad-rule", "did you mean posix?"),
        ({"PYIO_TRACE_MIN_DURATION": "1 hour"}, "bad-duration", "such as 20us"),
        ({"PYIO_TRACE_DUMP_SIGNAL": "KILL"}, "bad-value", "can be caught"),
        ({"PYIO_TRACE_FOLLOW": "al"}, "bad-value", "did you mean all?"),
        ({"PYIO_TRACE_STACKS": "ful"}, "bad-value", "did you mean full?"),
        ({"PYIO_TRACE_QUIET": "perhaps"}, "bad-value", "PYIO_TRACE_QUIET"),
        ({"PYIO_TRACE_OUTPUT": "-"}, "bad-value", "standard output"),
    ],
)
def test_wrong_variables(environ: dict[str, str], slug_expected: str, words: str, nowhere: str) -> None:
    with pytest.raises(ConfigError, match=words.replace("?", r"\?")) as problem:
        load({}, environ, nowhere)
    assert slug(problem) == slug_expected
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize(
    ("text", "slug_expected"),
    [
        ('stack = "full"', "unknown-option"),
        ("quiet = 1.5", "bad-value"),
        ("stacks = [1]", "bad-value"),
        ("max-log-size = 12", "bad-size"),
        ("not toml", "bad-pyproject"),
        ('max-log-size = "1G"\nmax_log_size = "2G"', "contradictory-options"),
        ("min_duration = 1e290", "bad-value"),
        (f"ring_size = {10**30}", "bad-size"),
        (f"ring_size = {'9' * 5000}", "bad-pyproject"),
        ('output = "a\\u0000b.pyio"', "bad-value"),
        ('exclude = ["a\\u0000b"]', "bad-value"),
        ("x = " + "[" * 100_000, "bad-pyproject"),
    ],
)
def test_wrong_pyproject(text: str, slug_expected: str, nowhere: str) -> None:
    project(nowhere, text)
    with pytest.raises(ConfigError, match=r"pyproject\.toml") as problem:
        load({}, {}, nowhere)
    assert slug(problem) == slug_expected


@pytest.mark.parametrize("text", ["tool = 'pyio_trace'", "[tool]\npyio_trace = 1", "[[tool.pyio_trace]]\nmode = 'x'"])
def test_a_pyproject_in_which_our_name_is_no_table(text: str, nowhere: str) -> None:
    (Path(nowhere) / "pyproject.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"pyproject\.toml") as problem:
        load({}, {}, nowhere)
    assert slug(problem) == "bad-pyproject"


def test_a_folder_named_pyproject_is_passed_over(nowhere: str) -> None:
    (Path(nowhere) / "pyproject.toml").mkdir()
    assert load({}, {}, nowhere) == Config()


def test_our_own_and_unset_variables_pass(nowhere: str) -> None:
    assert load({}, {"PYIO_TRACE_LOG": "/x", "PYIO_TRACE_STACKS": "", "PYIO_TRACE": "1"}, nowhere) == Config()


def test_values_from_python_are_held_to_the_same_rules() -> None:
    with pytest.raises(ConfigError):
        Config(stacks="most")
    with pytest.raises(ConfigError):
        Config(max_log_size=1)


def test_nothing_heavy_on_the_way_to_a_traced_program(nowhere: str) -> None:
    heavy = ["argparse", "dataclasses", "inspect", "pathlib", "tomllib", "difflib", "numpy", "pyarrow", "rich"]
    program = (
        "import sys; before = set(sys.modules); import pyio_trace.cli.main, pyio_trace.config as c\n"
        "from pyio_trace.cli.launch import parse; parse(['-q', '-c', 'pass']); c.output_paths(c.load(), 'x.py')\n"
        f"print([name for name in {heavy} if name in set(sys.modules) - before])"
    )
    environ = {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=nowhere, env=environ
    )
    assert done.stdout == "[]\n"
