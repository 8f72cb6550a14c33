"""One config, three spellings: what each means, which one wins, and what is refused with which message."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from pyio_trace.cli.help_text import option_rows
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
        assert getattr(config, option.name) == option.value(option.default, option.name)


def test_the_table_is_told_in_rows() -> None:
    # GIVEN the table WHEN its rows are asked for THEN each option has all its spellings and its default
    rows = {row["name"]: row for row in option_rows()}
    assert list(rows) == [option.name for option in OPTIONS]
    assert rows["max_log_size"] == {
        "name": "max_log_size",
        "flags": "--max-log-size SIZE",
        "variable": "PYIO_TRACE_MAX_LOG_SIZE",
        "key": "max-log-size",
        "type": "size",
        "default": "4G",
        "help": "once the live log has this size, keep only sums",
    }
    assert rows["stacks"]["type"] == "full | site | off"
    assert rows["output"]["default"] == "pyio-%s-%h-%t-%p.parquet"


def test_trace_takes_every_option() -> None:
    # GIVEN the table WHEN a part of a program is traced THEN all options can be given, but for the command line's quiet
    from pyio_trace.session import trace

    parameters = inspect.signature(trace).parameters
    assert set(parameters) == {option.name for option in OPTIONS} - {"quiet"}
    assert {parameter.default for parameter in parameters.values()} == {None}
    with pytest.raises(TypeError, match="did you mean stacks"):
        Config(stack="off")


def test_a_list_may_be_given_in_parts(nowhere: str) -> None:
    # GIVEN options that are lists WHEN a pyproject.toml gives them as such THEN they are as if separated by commas
    project(nowhere, 'instruments = ["h5py", "numpy"]\ninclude = ["*.h5", "data/x"]\n')
    config = load({}, {}, nowhere)
    assert config.instruments == "h5py,numpy"
    assert config.include == f"*.h5,{nowhere}/data/x"


def test_precedence(nowhere: str) -> None:
    project(nowhere, 'stacks = "site"\nquiet = true\nmax-log-size = "1G"\n')
    environ = {"PYIO_TRACE_STACKS": "off", "PYIO_TRACE_MAX_LOG_SIZE": "2G"}
    config = load({"max_log_size": "3G"}, environ, nowhere)
    assert (config.quiet, config.stacks, config.max_log_size) == (True, "off", 3 << 30)


def test_the_nearest_pyproject_counts_and_its_output_is_relative_to_it(nowhere: str) -> None:
    above = str(Path(nowhere).parent)
    project(above, 'output = "logs/run.pyio"\n')
    # no folder is made for its sake
    with pytest.raises(ConfigError, match="make it first") as problem:
        load({}, {}, nowhere)
    assert problem.value.slug == "no-such-folder" and not (Path(above) / "logs").exists()
    (Path(above) / "logs").mkdir()
    assert load({}, {}, nowhere).output == f"{above}/logs/run.pyio"
    (Path(above) / "logs").rmdir()
    assert load({"output": "mine.pyio"}, {}, nowhere).output == "mine.pyio"


def test_names_of_secrets(nowhere: str) -> None:
    project(nowhere, 'redact = ["PIN", "*-key"]\nmax-memory = "64M"\n')
    assert (load({}, {}, nowhere).redact, load({}, {}, nowhere).max_memory) == ("pin,*-key", 64 << 20)
    assert load({}, {"PYIO_TRACE_REDACT": " argv, Code,"}, nowhere).redact == "argv,code"


@pytest.mark.parametrize(("words", "rate"), [("off", 0), ("0", 0), (" 100 ", 100), ("1000", 1000)])
def test_rates(words: str, rate: int, nowhere: str) -> None:
    config = load({"sample": words}, {}, nowhere)
    assert config.sample == rate == Config.from_environment(config.to_environment()).sample


@pytest.mark.parametrize("words", ["1001", "-1", "0.5", "100Hz", "on", "\u0661"])
def test_what_is_no_rate(words: str, nowhere: str) -> None:
    with pytest.raises(ConfigError) as problem:
        load({"sample": words}, {}, nowhere)
    assert problem.value.slug == "bad-value"


def test_environment_round_trip() -> None:
    config = Config(output="x-%p.pyio", quiet=True, stacks="site", follow="none", max_log_size=1 << 30)
    environ = config.to_environment()
    assert Config.from_environment(environ) == config
    assert enabled(environ)
    assert Config.from_environment(Config().to_environment()) == Config()


@pytest.mark.parametrize("words", ["640", "0640", "0o640", " 640 "])
def test_a_mode_as_chmod_has_it(words: str, nowhere: str) -> None:
    config = load({"log_mode": words}, {}, nowhere)
    assert config.log_mode == "640" == Config.from_environment(config.to_environment()).log_mode
    project(nowhere, "log-mode = 640\n")
    assert load({}, {}, nowhere) == config


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
        ({"PYIO_TRACE_DUMP_SIGNAL": "KILL"}, "bad-value", "write USR1, USR2, QUIT"),
        ({"PYIO_TRACE_FOLLOW": "al"}, "bad-value", "did you mean all?"),
        ({"PYIO_TRACE_STACKS": "ful"}, "bad-value", "did you mean full?"),
        ({"PYIO_TRACE_QUIET": "perhaps"}, "bad-value", "PYIO_TRACE_QUIET"),
        ({"PYIO_TRACE_OUTPUT": "-"}, "bad-value", "standard output"),
        *(
            ({"PYIO_TRACE_LOG_MODE": mode}, "bad-value", "write 600, 640")
            for mode in ("666", "755", "4600", "440", "0", "-600", "u=rw", "648", "1e3")
        ),
        ({"PYIO_TRACE_REDACT": "pin,a b"}, "bad-value", "write argv, code, or names"),
        ({"PYIO_TRACE_REDACT": "x" * 2000}, "bad-value", "room for 1024"),
        ({"PYIO_TRACE_MAX_MEMORY": "10K"}, "bad-size", "between 1M and 64G"),
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
        "from pyio_trace.capture.startup.command_line import parse; parse(['-q', '-c', 'pass'])\n"
        "from pyio_trace.output import log_paths; log_paths(c.load().output, 'x.py')\n"
        f"print([name for name in {heavy} if name in set(sys.modules) - before])"
    )
    environ = {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=nowhere, env=environ
    )
    assert done.stdout == "[]\n"
