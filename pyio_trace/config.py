"""The options of a run: one table, one frozen Config, three ways to set it.

OPTIONS is the one table.  The command line, the PYIO_TRACE_* environment
variables, [tool.pyio_trace] in pyproject.toml, the help text and the settings
that children inherit all derive from it; values.py parses what the user wrote.
Precedence: command line, environment, the nearest pyproject.toml at or above
the current folder, defaults.

Traced programs import this module before their first line, so it imports only
os, stat and sys: no dataclasses (they import inspect), no re, no argparse.  In
such modules annotations other than plain names are strings, because evaluating
them takes time, and so does importing __future__.  project.py, which needs
tomllib, is imported only when a pyproject.toml mentions pyio_trace.
"""

import os
import stat
import sys

from pyio_trace.errors import ConfigError
from pyio_trace.values import (
    MAXIMUM_LOG,
    MINIMUM_LOG,
    MODES,
    STACK_STATES,
    choice,
    did_you_mean,
    parse_bytes,
    parse_duration,
    parse_flag,
    parse_mode,
    parse_names,
    parse_output,
    parse_period,
    parse_rate,
    parse_redact,
    parse_rules,
    parse_signal,
    size_between,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping

ENABLE_VARIABLE = "PYIO_TRACE"
PREFIX = "PYIO_TRACE_"
# Set by pyio_trace, never by a user: the live log to join; the Parquet log it becomes; the pipes to `pyio-trace doctor
# SCRIPT` (doctor_wait.py); the third-party instruments already found (instrument_registry.py); the script, for
# workers whose command line does not name it (tracer.py).
INTERNAL_VARIABLES = (
    "PYIO_TRACE_LOG", "PYIO_TRACE_FINAL", "PYIO_TRACE_DOCTOR", "PYIO_TRACE_FOUND", "PYIO_TRACE_SCRIPT",
)  # fmt: skip
LOG_VARIABLE, FINAL_VARIABLE, DOCTOR_VARIABLE, FOUND_VARIABLE, SCRIPT_VARIABLE = INTERNAL_VARIABLES

# Types of options.
SWITCH, CHOICE, LIST, SIZE, DURATION = "switch", "choice", "list", "size", "duration"
PATH, SIGNAL, PERMISSIONS, RATE = "path", "signal", "permissions", "rate"


class Option:
    """One row of the table.

    name: the field of Config, and the key in pyproject.toml.  type: one of the
    constants above.  flags: on the command line.  metavar: what follows the
    flag; empty for a switch.  parse: takes the user's text and the spelling to
    name in an error, returns the value.  default: as a user would write it.
    """

    __slots__ = ("default", "flags", "help", "metavar", "name", "parse", "type")

    def __init__(
        self,
        name: str,
        type: str,
        flags: "tuple[str, ...]",
        metavar: str,
        parse: "Callable[[str, str], object]",
        default: str,
        help: str,
    ) -> None:
        self.name = name
        self.type = type
        self.flags = flags
        self.metavar = metavar
        self.parse = parse
        self.default = default
        self.help = help

    @property
    def variable(self) -> str:
        """The environment variable."""
        return PREFIX + self.name.upper()

    @property
    def choices(self) -> "tuple[str, ...]":
        """The words that a CHOICE accepts."""
        words: tuple[str, ...] = getattr(self.parse, "words", ())
        return words

    def value(self, text: str, blame: str) -> object:
        """Parse `text`.  Raises ConfigError, which names `blame`."""
        try:
            encodable = b"\0" not in os.fsencode(text)
        except UnicodeEncodeError:  # a lone surrogate
            encodable = False
        if not encodable:
            raise ConfigError("bad-value", f"{blame}: {text!r} contains a character that no file name can contain")
        return self.parse(text, blame)


OPTIONS: "tuple[Option, ...]" = (
    Option("output", PATH, ("-o", "--output"), "PATH", parse_output, "",
           "the log: *.parquet (packed at the end of the run) or *.pyio (live); a folder; patterns "
           "%h host, %p pid, %s script, %t time, %j job id, %n node, %r rank"),
    Option("quiet", SWITCH, ("-q", "--quiet"), "", parse_flag, "0",
           "print no summary and no messages at the end"),
    Option("mode", CHOICE, ("--mode",), "MODE", choice(*MODES), "trace",
           "trace: every operation; profile: sums by file, operation and line, for always-on use; "
           "ring: the latest --ring-size of operations, a flight recorder"),
    Option("stacks", CHOICE, ("--stacks",), "WHICH", choice(*STACK_STATES[1:]), "full",
           "the Python stack of each operation: full, site (the innermost line) or off"),
    Option("follow", CHOICE, ("--follow",), "WHICH", choice("python", "none", "all"), "python",
           "child processes to trace as well: python (those that run Python), all or none"),
    Option("instruments", LIST, ("--instruments",), "NAMES", parse_names, "all",
           "libraries whose calls are shown: all, none, or names separated by commas (h5py,numpy; -torch for all but "
           "that one)"),
    Option("max_log_size", SIZE, ("--max-log-size",), "SIZE", size_between(MINIMUM_LOG, MAXIMUM_LOG, "a log has"), "4G",
           "once the live log has this size, keep only sums"),
    Option("include", LIST, ("--include",), "RULES", parse_rules, "",
           "record only what matches: a pattern of paths ('*.h5', /scratch), layer:NAME, op:NAME, process:NAME; or "
           "record what is left out by default: imports, proc, sys, dev, pipes, sockets, anonymous, terminals. "
           "Separate several by commas, or repeat the option"),
    Option("exclude", LIST, ("--exclude",), "RULES", parse_rules, "",
           "leave out what matches, and only count it; rules as for --include"),
    Option("min_duration", DURATION, ("--min-duration",), "TIME", parse_duration, "0",
           "leave out shorter operations, such as 100us; a profile sums all"),
    Option("min_size", SIZE, ("--min-size",), "SIZE", parse_bytes, "0",
           "leave out transfers of fewer bytes, such as 4K; a profile sums all"),
    Option("ring_size", SIZE, ("--ring-size",), "SIZE", size_between(1 << 20, MAXIMUM_LOG // 2, "a ring has"), "16M",
           "how much --mode ring keeps; 1M holds some 22,000 operations"),
    Option("dump_signal", SIGNAL, ("--dump-signal",), "SIGNAL", parse_signal, "",
           "at this signal, such as USR2, write a copy of the log as it is, LOG-dump-1.pyio"),
    Option("log_mode", PERMISSIONS, ("--log-mode",), "MODE", parse_mode, "600",
           "who may read the log of a run that has ended, as for chmod: 600, 640, 604 or 644"),
    Option("redact", LIST, ("--redact",), "NAMES", parse_redact, "",
           "more names whose values are secrets, besides password, token and the like: pin,*-pin. argv: of each "
           "command, keep only the program and the script; code: also drop what follows -c"),
    Option("max_memory", SIZE, ("--max-memory",), "SIZE", size_between(1 << 20, 64 << 30, "names take"), "32M",
           "the most memory that the tables of names and stacks may take in each traced process; beyond it a name may "
           "be written to the log more than once"),
    Option("sample", RATE, ("--sample",), "HZ", parse_rate, "100",
           "how often a second a process beside the run looks where each thread is and what it waits for, or off; less "
           "often where it would take 2% of a processor. Not with --mode ring; trace() does it only if told"),
    Option("system", DURATION, ("--system",), "TIME", parse_period, "off",
           "how often, such as 1s, a process beside the run looks at the machine: processors, memory, disks, network, "
           "what other processes read and write; or off; less often where it would take 0.5% of a processor. Not "
           "with --mode ring"),
)  # fmt: skip
BY_NAME = {option.name: option for option in OPTIONS}
_LARGEST_PROJECT = 1 << 20  # of a pyproject.toml, in bytes


class Config:
    """The options of a run, by the names in OPTIONS; frozen.

    Sizes are in bytes, min_duration and system are in nanoseconds, lists are texts separated
    by commas, and output is None for the default name.
    """

    __slots__ = tuple(BY_NAME)
    output: "str | None"
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
    log_mode: str
    redact: str
    max_memory: int
    sample: int
    system: int

    def __init__(self, **values: object) -> None:
        for name in values:
            if name not in BY_NAME:
                raise TypeError(f"Config has no option {name!r}{did_you_mean(name, BY_NAME)}")
        self._parse({name: (_to_text(value), name) for name, value in values.items()})

    def _parse(self, given: "_Given") -> None:
        for option in OPTIONS:
            said = given.get(option.name)
            value = option.value(*said) if said else option.parse(option.default, option.name)
            object.__setattr__(self, option.name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Config is frozen: cannot set {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Config is frozen: cannot delete {name}")

    def _key(self) -> "tuple[object, ...]":
        return tuple(getattr(self, name) for name in BY_NAME)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Config({', '.join(f'{name}={getattr(self, name)!r}' for name in BY_NAME)})"

    @property
    def has_names(self) -> bool:
        """Whether instruments or operations are named: check_names() then has to look whether they exist."""
        return self.instruments not in ("all", "none") or "op:" in self.include + self.exclude

    def to_environment(self) -> "dict[str, str]":
        """The variables that give a child process this same Config, and switch PYIO_TRACE on.

        They include options at their default, so that a pyproject.toml near the child changes nothing.
        """
        variables = {option.variable: _to_text(getattr(self, option.name)) for option in OPTIONS}
        variables[ENABLE_VARIABLE] = "1"
        return variables

    @classmethod
    def from_environment(cls, environ: "Mapping[str, str]" = os.environ) -> "Config":
        """The Config that the PYIO_TRACE_* variables alone describe.  Raises ConfigError."""
        return _build(_from_variables(environ))


def enabled(environ: "Mapping[str, str]" = os.environ) -> bool:
    """Whether PYIO_TRACE switches tracing on.  Raises ConfigError for a word that means neither on nor off."""
    return parse_flag(environ.get(ENABLE_VARIABLE, ""), ENABLE_VARIABLE)


def isolated() -> bool:
    """Whether this interpreter ignores its environment (-E, -I)."""
    return bool(sys.flags.ignore_environment)


def load(
    options: "Mapping[str, str] | None" = None,
    environ: "Mapping[str, str] | None" = None,
    folder: "str | None" = None,
    *,
    typed: bool = True,
    alone: bool = isolated(),
    otherwise: "Mapping[str, str] | None" = None,
) -> Config:
    """The Config of a run, from all three sources.  Raises ConfigError.

    options: texts by name, from the command line (command_line.py).  folder:
    where the search for pyproject.toml starts; None: the current one.  typed:
    the options were typed on a command line, so errors name flags rather than
    fields.  alone: ignore the environment and any pyproject.toml, as under -E
    and -I.  otherwise: texts by name for what none of them says, instead of
    the usual defaults.
    """
    given = {} if alone else _from_variables(os.environ if environ is None else environ)
    for name, text in (options or {}).items():
        given[name] = (text, BY_NAME[name].flags[-1] if typed else name)
    unsaid: _Given = {name: (text, name) for name, text in (otherwise or {}).items()}
    return _build(unsaid | given if alone else unsaid | _from_project(folder, given) | given)


# Option name -> (the user's text, the spelling to name in an error).
_Given = dict[str, tuple[str, str]]


def _build(given: _Given) -> Config:
    config = Config.__new__(Config)
    config._parse(given)
    return config


def _from_variables(environ: "Mapping[str, str]") -> _Given:
    known = {option.variable: option.name for option in OPTIONS}
    given: _Given = {}
    for variable in environ:  # not items(), which would decode each value
        if not variable.startswith(PREFIX) or variable in INTERNAL_VARIABLES:
            continue
        if variable not in known:
            raise ConfigError("unknown-option", f"there is no variable {variable}{did_you_mean(variable, known)}")
        text = environ[variable]
        if text:  # shells and batch systems set a variable to the empty string to mean "not set"
            given[known[variable]] = (text, variable)
    return given


def _from_project(folder: "str | None", overridden: "Container[str]") -> _Given:
    """What [tool.pyio_trace] of the nearest pyproject.toml says; relative paths in it start in that file's folder.

    overridden: options that are set elsewhere.  They are not checked here, so
    that an impossible output does not stop a run with -o.
    """
    path, content = find_project(folder)
    if b"pyio_trace" not in content:  # spares every other project an import or two
        return {}
    from pyio_trace import project

    given: _Given = {}
    for key, value in project.table_of(content, path).items():
        if key == "insights":  # a table of its own: insights/settings.py
            continue
        name, blame = key.replace("-", "_"), f"{path}: {key}"
        if name not in BY_NAME:
            raise ConfigError("unknown-option", f"{path}: there is no option {key!r}{did_you_mean(name, BY_NAME)}")
        if name in given:
            raise ConfigError("contradictory-options", f"{blame} is given in two spellings; give it once")
        kind = BY_NAME[name].type
        if kind == LIST and isinstance(value, list) and all(isinstance(word, str) for word in value):
            value = ",".join(value)
        if not isinstance(value, (str, int, bool)):
            raise ConfigError("bad-value", f"{blame} is {value!r}; a string, a number or true/false is expected")
        text = _to_text(value)
        project.check_text(text, blame)
        if text and kind == LIST:
            text = project.rules_beside(text, path)
        elif text and kind == PATH and name not in overridden:
            text = project.output_beneath(text, path)
        given[name] = (text, blame)
    return {name: what for name, what in given.items() if name not in overridden}


def find_project(folder: "str | None") -> "tuple[str, bytes]":
    """The nearest pyproject.toml that may be used, and its content; both empty if there is none.

    The search goes upward as far as the user's home, a repository's root or the
    root of a file system: what lies above does not belong to this project.
    """
    try:
        here = os.path.abspath(folder or os.getcwd())
    except OSError:  # the current folder is gone
        return "", b""
    status, home = _status(here), _status(os.path.expanduser("~"))
    device = 0 if status is None else status.st_dev
    while status is not None and status.st_dev == device:
        path = os.path.join(here, "pyproject.toml")
        content = _project_content(path)
        if content is not None:
            return path, content
        above = os.path.dirname(here)
        is_home = home is not None and os.path.samestat(status, home)
        if above == here or is_home or os.path.lexists(os.path.join(here, ".git")):
            break
        here, status = above, _status(above)
    return "", b""


def _status(path: str) -> "os.stat_result | None":
    try:
        return os.stat(path)
    except OSError:
        return None


def _project_content(path: str) -> "bytes | None":
    """The bytes of a pyproject.toml; None if there is none that may be used.  Raises ConfigError."""
    try:
        content = trusted_content(path, _LARGEST_PROJECT, fail=True)
    except OSError as error:
        raise ConfigError("bad-pyproject", f"{path} cannot be read: {error.strerror}") from None
    if content is not None and len(content) > _LARGEST_PROJECT:
        raise ConfigError("bad-pyproject", f"{path} is larger than {_LARGEST_PROJECT} bytes; it is not read")
    return content


def trusted_content(path: str, most: int, fail: bool = False) -> "bytes | None":
    """The bytes of a file; None unless it is a regular file that belongs to the user or to root.

    Another user's file is not trusted, and a FIFO would block.  A file of more
    than `most` bytes is None, or with `fail` its first most + 1 bytes; with
    `fail`, a file that opens and cannot be read raises OSError.
    """
    try:
        if not _is_trusted(os.stat(path)):  # before opening it: opening a device can have effects
            return None
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        if not _is_trusted(status) or (status.st_size > most and not fail):
            return None
        return os.read(fd, min(status.st_size, most + 1))
    except OSError:
        if fail:
            raise
        return None
    finally:
        os.close(fd)


def _is_trusted(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_uid in (0, os.geteuid())


def _to_text(value: object) -> str:
    """A parsed value as a text that parses to it again."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "1" if value else "0"
    return str(value)
