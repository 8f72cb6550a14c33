"""What a run was told: ONE frozen Config, from three spellings.

The command line, the PYIO_TRACE_* environment and [tool.pyio_trace] in
pyproject.toml are all derived from OPTIONS, the one table of what can be
said; values.py has what the words after each mean.  Precedence: command line,
environment, the nearest pyproject.toml upward from the current folder,
defaults.

This module is imported inside traced programs before their first line, so it
imports os only: no dataclasses (it pulls in inspect), no re, no argparse; and
tomllib only when a pyproject.toml that mentions us is really read.
"""

from __future__ import annotations

import os

from pyio_trace.errors import ConfigError
from pyio_trace.values import (
    did_you_mean,
    parse_bytes,
    parse_choice,
    parse_duration,
    parse_flag,
    parse_names,
    parse_output,
    parse_ring,
    parse_rules,
    parse_signal,
    parse_size,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ENABLE_VARIABLE = "PYIO_TRACE"
PREFIX = "PYIO_TRACE_"
# Set by us, never by a user: the live log to join; the log that it becomes; the pipes to `pyio-trace doctor SCRIPT`
# (capture/hold.py); third parties' instruments, as they were found (capture/engine.py); the script, for workers whose
# command line does not tell (capture/online.py).
INTERNAL_VARIABLES = (
    "PYIO_TRACE_LOG", "PYIO_TRACE_FINAL", "PYIO_TRACE_HOLD", "PYIO_TRACE_FOUND", "PYIO_TRACE_SCRIPT",
)  # fmt: skip
LOG_VARIABLE, FINAL_VARIABLE, HOLD_VARIABLE, FOUND_VARIABLE, SCRIPT_VARIABLE = INTERNAL_VARIABLES


class Option:
    """One thing a user can say, in whichever spelling.

    name: the field of Config; flags: on the command line; metavar: what
    follows the flag, empty for a switch; parse: from the words of the user and
    the spelling to blame in an error; default: where nobody says anything.
    """

    __slots__ = ("default", "flags", "help", "metavar", "name", "parse")

    def __init__(
        self,
        name: str,
        flags: tuple[str, ...],
        metavar: str,
        parse: Callable[[str, str], object],
        default: object,
        help: str,
    ) -> None:
        self.name = name
        self.flags = flags
        self.metavar = metavar
        self.parse = parse
        self.default = default
        self.help = help

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()

    def value(self, words: str, blame: str) -> object:
        """What the words mean; raises ConfigError."""
        try:
            named = b"\0" not in os.fsencode(words)
        except UnicodeEncodeError:  # half a character
            named = False
        if not named:
            raise ConfigError("bad-value", f"{blame}: {words!r} has a character in it that nothing can be named by")
        return self.parse(words, blame)


OPTIONS: tuple[Option, ...] = (
    Option("output", ("-o", "--output"), "PATH", parse_output, None,
           "the log: *.parquet (packed at the end of the run) or *.pyio (live); a folder; patterns "
           "%h host, %p pid, %s script, %t time, %j job id. Default: pyio-%s-%t-%p.parquet"),
    Option("quiet", ("-q", "--quiet"), "", parse_flag, False, "no summary and no messages of ours at the end"),
    Option("mode", ("--mode",), "MODE", parse_choice(("trace", "profile", "ring"), (), ""), "trace",
           "trace: every operation; profile: sums by file, operation and line, for always-on use; "
           "ring: the latest --ring-size of operations, a flight recorder"),
    Option("stacks", ("--stacks",), "WHICH", parse_choice(("full", "site", "off"), (), ""), "full",
           "the Python stack of each operation: full, site (the innermost line) or off"),
    Option("follow", ("--follow",), "WHICH", parse_choice(("python", "none", "all"), (), ""), "python",
           "children to trace as well: python (the Python ones), all or none"),
    Option("instruments", ("--instruments",), "NAMES", parse_names, "all",
           "libraries whose calls are shown: all, none, or names with commas (h5py,numpy; -torch for all but that)"),
    Option("max_log_size", ("--max-log-size",), "SIZE", parse_size, 4 << 30,
           "from this size of the live log on only sums are kept. Default: 4G"),
    Option("include", ("--include",), "RULES", parse_rules, "",
           "record only what matches: a pattern of paths ('*.h5', /scratch), layer:NAME, op:NAME, process:NAME; and "
           "what is left out otherwise: imports, proc, sys, dev, pipes, sockets, anonymous, terminals. "
           "Several: with commas, or several times"),
    Option("exclude", ("--exclude",), "RULES", parse_rules, "",
           "leave out what matches, and only count it; rules as for --include"),
    Option("min_duration", ("--min-duration",), "TIME", parse_duration, 0,
           "leave out shorter operations, such as 100us; a profile sums all"),
    Option("min_size", ("--min-size",), "SIZE", parse_bytes, 0,
           "leave out transfers of fewer bytes, such as 4K; a profile sums all"),
    Option("ring_size", ("--ring-size",), "SIZE", parse_ring, 16 << 20,
           "what --mode ring keeps. Default: 16M, some 350 000 operations"),
    Option("dump_signal", ("--dump-signal",), "SIGNAL", parse_signal, "",
           "write a copy of the log as it is, LOG-dump-1.pyio, at this signal, such as USR2"),
)  # fmt: skip
BY_NAME = {option.name: option for option in OPTIONS}
RULES = {"include", "exclude"}  # what may be said several times: all of it counts


class Config:
    """What a run was told; frozen.

    output: name or pattern of the log, None for the default; quiet: nothing
    of ours on stderr; mode: "trace", "profile" or "ring"; stacks: "full",
    "site" or "off"; follow: "python", "all" or "none"; instruments: "all", "none", or
    names of libraries with commas between them; max_log_size: bytes; include,
    exclude: rules with commas between them; min_duration: ns; min_size: bytes;
    ring_size: bytes; dump_signal: "SIGUSR2" or such, or empty.
    """

    __slots__ = (
        "dump_signal", "exclude", "follow", "include", "instruments", "max_log_size", "min_duration", "min_size",
        "mode", "output", "quiet", "ring_size", "stacks",
    )  # fmt: skip
    output: str | None
    quiet: bool
    mode: str
    stacks: str
    follow: str
    instruments: str
    max_log_size: int
    include: str
    exclude: str
    min_duration: int
    min_size: int
    ring_size: int
    dump_signal: str

    def __init__(
        self,
        *,
        output: str | None = None,
        quiet: bool = False,
        mode: str = "trace",
        stacks: str = "full",
        follow: str = "python",
        instruments: str = "all",
        max_log_size: int = 4 << 30,
        include: str = "",
        exclude: str = "",
        min_duration: int = 0,
        min_size: int = 0,
        ring_size: int = 16 << 20,
        dump_signal: str = "",
    ) -> None:
        values: dict[str, object] = {"output": output, "quiet": quiet, "mode": mode, "stacks": stacks}
        values |= {"follow": follow, "instruments": instruments, "max_log_size": max_log_size}
        values |= {"include": include, "exclude": exclude}
        values |= {"min_duration": min_duration, "min_size": min_size, "ring_size": ring_size}
        values |= {"dump_signal": dump_signal}
        for name, value in values.items():
            # A value given from Python is held to the same rules as one that was typed.
            object.__setattr__(self, name, BY_NAME[name].value(_spelt(value), name))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Config is frozen: cannot set {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Config is frozen: cannot delete {name}")

    def _key(self) -> tuple[object, ...]:
        return tuple(getattr(self, option.name) for option in OPTIONS)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Config({', '.join(f'{option.name}={getattr(self, option.name)!r}' for option in OPTIONS)})"

    def to_environment(self) -> dict[str, str]:
        """The variables by which a child process gets this very Config.

        Every option is named, also those at their default, so that no
        pyproject.toml near the child has a say; PYIO_TRACE is switched on.
        """
        variables = {option.variable: _spelt(getattr(self, option.name)) for option in OPTIONS}
        variables[ENABLE_VARIABLE] = "1"
        return variables

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Config:
        """The Config that PYIO_TRACE_* variables alone describe; raises ConfigError."""
        return _build(_from_variables(environ))


def enabled(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether PYIO_TRACE switches tracing on; raises ConfigError for a word that is neither on nor off."""
    return parse_flag(environ.get(ENABLE_VARIABLE, ""), ENABLE_VARIABLE)


def load(
    options: Mapping[str, str] | None = None,
    environ: Mapping[str, str] = os.environ,
    folder: str | None = None,
    *,
    typed: bool = True,
) -> Config:
    """The Config of a run from all three spellings; raises ConfigError.

    options: field name to words, from the command line (see
    cli/launch.py); folder: where the search for pyproject.toml starts, the
    current one when None; typed: the options stood on a command line, so that
    errors blame its flags, and not the names of the fields.
    """
    said = _from_project(folder)
    said.update(_from_variables(environ))
    for name, words in (options or {}).items():
        said[name] = (words, BY_NAME[name].flags[-1] if typed else name)
    return _build(said)


# Field name -> (the user's words, the spelling to blame in an error).
_Said = dict[str, tuple[str, str]]


def _build(said: _Said) -> Config:
    values = {}
    for name, (words, blame) in said.items():
        values[name] = BY_NAME[name].value(words, blame)
    return Config(**values)  # type: ignore[arg-type]  # each parser answers its field's type


def _from_variables(environ: Mapping[str, str]) -> _Said:
    known = {option.variable: option.name for option in OPTIONS}
    said: _Said = {}
    for variable in environ:  # not items(), which would decode each value
        if not variable.startswith(PREFIX) or variable in INTERNAL_VARIABLES:
            continue
        if variable not in known:
            raise ConfigError("unknown-option", f"there is no variable {variable}{did_you_mean(variable, known)}")
        words = environ[variable]
        if words:  # set but empty is how a shell or a batch system says "not set"
            said[known[variable]] = (words, variable)
    return said


def _from_project(folder: str | None) -> _Said:
    """What [tool.pyio_trace] of the nearest pyproject.toml says; its output is relative to that file."""
    path = _find_project(folder)
    if path is None:
        return {}
    said: _Said = {}
    for key, value in _table_of(path).items():
        name = key.replace("-", "_")
        if name not in BY_NAME:
            raise ConfigError("unknown-option", f"{path}: there is no option {key!r}{did_you_mean(name, BY_NAME)}")
        if name in said:
            raise ConfigError("contradictory-options", f"{path}: {key} is given in two spellings; give it once")
        if name in RULES and isinstance(value, list) and all(isinstance(word, str) for word in value):
            value = ",".join(value)
        if not isinstance(value, (str, int, bool)):
            raise ConfigError("bad-value", f"{path}: {key} is {value!r}; a string, a number or true/false is expected")
        said[name] = (_spelt(value), f"{path}: {key}")
    if said.get("output", ("", ""))[0]:
        words, blame = said["output"]
        said["output"] = (os.path.join(os.path.dirname(path), os.path.expanduser(words)), blame)
    for name in RULES & said.keys():
        words, blame = said[name]
        said[name] = (",".join(_beside(word.strip(), os.path.dirname(path)) for word in words.split(",")), blame)
    return said


def _table_of(path: str) -> dict[str, object]:
    """[tool.pyio_trace] of a pyproject.toml.  Raises ConfigError."""
    try:
        with open(path, "rb") as file:
            text = file.read()
        if b"pyio_trace" not in text:  # spares every other project the import of tomllib
            return {}
        import tomllib

        table: object = tomllib.loads(text.decode())
    except (ValueError, RecursionError, OSError) as error:
        raise ConfigError("bad-pyproject", f"{path} cannot be read: {error}") from None
    for name in ("tool", "pyio_trace"):
        table = table.get(name, {}) if isinstance(table, dict) else None
    if not isinstance(table, dict):
        raise ConfigError("bad-pyproject", f"{path}: pyio_trace is no table; write [tool.pyio_trace], options below it")
    return table


def _beside(rule: str, folder: str) -> str:
    """A rule of a pyproject.toml: a relative path in it starts where that file is."""
    return os.path.join(folder, rule) if "/" in rule and rule[0] not in "/~*" else rule


def _find_project(folder: str | None) -> str | None:
    """The nearest pyproject.toml, or None; also None where the current folder is gone or unreadable."""
    try:
        here = os.path.abspath(folder or os.getcwd())
    except OSError:
        return None
    while True:
        path = os.path.join(here, "pyproject.toml")
        if os.access(path, os.R_OK) and not os.path.isdir(path):
            return path
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above


def _spelt(value: object) -> str:
    """A value as a user would write it, for the parser and for the environment."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "1" if value else "0"
    return str(value)


def output_paths(config: Config, script: str) -> tuple[str, str | None]:
    """(live log, Parquet log or None) of a run of `script`; see pyio_trace/output.py."""
    from pyio_trace.output import log_paths

    return log_paths(config.output, script)
