"""What a run was told: ONE frozen Config, from three spellings.

The command line, the PYIO_TRACE_* environment and [tool.pyio_trace] in
pyproject.toml are all derived from OPTIONS, the one table of what can be
said.  Precedence: command line, environment, the nearest pyproject.toml
upward from the current folder, defaults.

This module is imported inside traced programs before their first line, so it
imports os only: no dataclasses (it pulls in inspect), no re, no argparse; and
tomllib only when a pyproject.toml that mentions us is really read.
"""

from __future__ import annotations

import os

from pyio_trace.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

ENABLE_VARIABLE = "PYIO_TRACE"
PREFIX = "PYIO_TRACE_"
# Set by us, never by a user: the live log to join; the log that it becomes; the pipes to `pyio-trace doctor SCRIPT`
# (capture/hold.py); third parties' instruments, as they were found (capture/engine.py).
INTERNAL_VARIABLES = ("PYIO_TRACE_LOG", "PYIO_TRACE_FINAL", "PYIO_TRACE_HOLD", "PYIO_TRACE_FOUND")
FINAL_VARIABLE, HOLD_VARIABLE, FOUND_VARIABLE = INTERNAL_VARIABLES[1:]

CATEGORIES = ("imports", "proc", "sys", "dev", "pipes", "sockets", "anonymous", "terminals")  # csrc/core/select.c
_LAYERS = ("app", "user", "hdf5", "mpiio", "stdio", "posix")
_DURATION_UNITS = {"": 1, "ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_SIZE_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
MINIMUM_LOG = 64 << 10  # the fixed region, a process entry and a chunk or two
MAXIMUM_LOG = 64 << 30  # ids are 32 bits and count 16-byte units (csrc/core/log_format.h)


def _bytes(text: str, name: str) -> int:
    """Bytes from ``"4G"``, ``"512MiB"``, ``"1000000"``; units are powers of 1024."""
    number = text.strip().upper()
    for ending in ("IB", "B"):
        if number.endswith(ending):
            number = number[: -len(ending)]
            break
    unit = number[-1:] if number[-1:] in ("K", "M", "G", "T") else ""
    number = number[: len(number) - len(unit)].strip()
    try:
        return int(float(number) * _SIZE_UNITS[unit])
    except (ValueError, OverflowError):
        raise ConfigError("bad-size", f"{name}: {text!r} is not a size; write bytes or such as 500M or 4G") from None


def parse_size(text: str, name: str) -> int:
    """The size of a log, in bytes."""
    size = _bytes(text, name)
    if not MINIMUM_LOG <= size <= MAXIMUM_LOG:
        raise ConfigError("bad-size", f"{name}: {text!r} is out of range; a log has between 64K and 64G")
    return size


def parse_ring(text: str, name: str) -> int:
    """The size of a ring, in bytes."""
    size = _bytes(text, name)
    if not 1 << 20 <= size <= MAXIMUM_LOG // 2:
        raise ConfigError("bad-size", f"{name}: {text!r} is out of range; a ring has between 1M and 32G")
    return size


def parse_bytes(text: str, name: str) -> int:
    """A number of bytes, 0 and up."""
    size = _bytes(text, name)
    if not 0 <= size < 1 << 62:
        raise ConfigError("bad-size", f"{name}: {text!r} is out of range")
    return size


def parse_duration(text: str, name: str) -> int:
    """Nanoseconds from ``"1.5ms"``, ``"20us"``, ``"2s"``; a bare number is nanoseconds."""
    word = text.strip().lower()
    unit = next((unit for unit in ("ns", "us", "ms", "s") if word.endswith(unit)), "")
    try:
        duration = int(float(word.removesuffix(unit)) * _DURATION_UNITS[unit])
    except (ValueError, OverflowError):
        raise ConfigError("bad-duration", f"{name}: {text!r} is not a duration; write such as 20us or 1ms") from None
    if not 0 <= duration < 1 << 62:
        raise ConfigError("bad-duration", f"{name}: {text!r} is out of range")
    return duration


def parse_rules(text: str, name: str) -> str:
    """Rules of --include or --exclude, with commas between them, in their canonical spelling.

    A rule is a category (imports, pipes, ...), ``layer:NAME``, ``op:NAME``, ``process:NAME``, or a pattern of
    paths, of which relative ones with a slash start in the current folder.
    """
    return ",".join(_rule(word.strip(), name) for word in text.split(",") if word.strip())


def _rule(word: str, name: str) -> str:
    if word in CATEGORIES:
        return word
    kind, colon, what = word.partition(":")
    if colon and "/" not in kind:
        if kind not in ("layer", "op", "process") or not what:
            near = did_you_mean(kind, ("layer", "op", "process"))
            raise ConfigError(
                "bad-rule", f"{name}: {word!r} is no rule; write layer:NAME, op:NAME, process:NAME or a path{near}"
            )
        if kind == "layer" and not any(letter in what for letter in "*?[") and what not in _LAYERS:
            known = ", ".join(_LAYERS)
            raise ConfigError("bad-rule", f"{name}: there is no layer {what!r}{did_you_mean(what, _LAYERS)} ({known})")
        return word
    if word.startswith("~"):
        word = os.path.expanduser(word)
    if "/" not in word:
        return word
    folder = "/" if word.endswith("/") else ""
    return word if word.startswith(("/", "**/")) else os.path.abspath(word) + folder


def parse_signal(text: str, name: str) -> str:
    """A signal's name (``"USR2"``, ``"SIGUSR2"``) as ``"SIGUSR2"``; empty: none."""
    word = text.strip().upper()
    if not word:
        return ""
    import signal  # only where one is named

    word = word if word.startswith("SIG") else f"SIG{word}"
    if word not in signal.Signals.__members__ or word in ("SIGKILL", "SIGSTOP"):
        raise ConfigError("bad-value", f"{name}: {text!r} is not a signal that can be caught; write such as USR2")
    return word


def parse_flag(text: str, name: str) -> bool:
    """True or False from the usual words, in any case; empty is False."""
    word = text.strip().lower()
    if word in ("1", "true", "on", "yes", "y"):
        return True
    if word in ("", "0", "false", "off", "no", "n"):
        return False
    raise ConfigError("bad-value", f"{name}: {text!r} is neither on nor off; write 1 or 0")


def parse_output(text: str, name: str) -> str | None:
    """The log's name or pattern; empty is the default name."""
    if text == "-":
        raise ConfigError("bad-value", f"{name}: a log cannot be written to standard output; name a file")
    return text or None


def parse_names(text: str, name: str) -> str:
    """Names of instruments, with commas between them, in one spelling."""
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    for word in words:
        if not word.removeprefix("-").replace("_", "").replace(".", "").isalnum():
            raise ConfigError("bad-value", f"{name}: {word!r} is no library's name; write all, none, h5py or -h5py")
    return ",".join(words)


def _parse_choice(choices: tuple[str, ...], later: tuple[str, ...], slug: str) -> Callable[[str, str], str]:
    """A parser of one word out of `choices`; `later` are words that are planned but not built."""

    def parse(text: str, name: str) -> str:
        word = text.strip().lower()
        if word in choices:
            return word
        if word in later:
            raise ConfigError(slug, f"{name}: {word!r} is not built yet; use {' or '.join(map(repr, choices))}")
        raise ConfigError(
            "bad-value", f"{name}: {text!r} is not one of {', '.join(choices)}{did_you_mean(word, choices)}"
        )

    return parse


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


OPTIONS: tuple[Option, ...] = (
    Option("output", ("-o", "--output"), "PATH", parse_output, None,
           "the log: *.parquet (packed at the end of the run) or *.pyio (live); a folder; patterns "
           "%h host, %p pid, %s script, %t time, %j job id. Default: pyio-%s-%t-%p.parquet"),
    Option("quiet", ("-q", "--quiet"), "", parse_flag, False, "no summary and no messages of ours at the end"),
    Option("mode", ("--mode",), "MODE", _parse_choice(("trace", "profile", "ring"), (), ""), "trace",
           "trace: every operation; profile: sums by file, operation and line, for always-on use; "
           "ring: the latest --ring-size of operations, a flight recorder"),
    Option("stacks", ("--stacks",), "WHICH", _parse_choice(("full", "site", "off"), (), ""), "full",
           "the Python stack of each operation: full, site (the innermost line) or off"),
    Option("follow", ("--follow",), "WHICH", _parse_choice(("python", "none", "all"), (), ""), "python",
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
           "leave out shorter operations, such as 100us"),
    Option("min_size", ("--min-size",), "SIZE", parse_bytes, 0,
           "leave out transfers of fewer bytes, such as 4K"),
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
            object.__setattr__(self, name, BY_NAME[name].parse(_spelt(value), name))

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
    options: Mapping[str, str] | None = None, environ: Mapping[str, str] = os.environ, folder: str | None = None
) -> Config:
    """The Config of a run from all three spellings; raises ConfigError.

    options: field name to words, from the command line (see
    cli/launch.py); folder: where the search for pyproject.toml starts, the
    current one when None.
    """
    said = _from_project(folder)
    said.update(_from_variables(environ))
    for name, words in (options or {}).items():
        said[name] = (words, BY_NAME[name].flags[-1])
    return _build(said)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``"; did you mean X?"`` where something known is near, else nothing."""
    from difflib import get_close_matches  # imports re: on the way to an error only

    near = get_close_matches(word, list(known), 1, 0.6)
    return f"; did you mean {near[0]}?" if near else ""


# Field name -> (the user's words, the spelling to blame in an error).
_Said = dict[str, tuple[str, str]]


def _build(said: _Said) -> Config:
    values = {}
    for name, (words, blame) in said.items():
        values[name] = BY_NAME[name].parse(words, blame)
    return Config(**values)  # type: ignore[arg-type]  # each parser answers its field's type


def _from_variables(environ: Mapping[str, str]) -> _Said:
    known = {option.variable: option.name for option in OPTIONS}
    said: _Said = {}
    for variable, words in environ.items():
        if not variable.startswith(PREFIX) or variable in INTERNAL_VARIABLES:
            continue
        if variable not in known:
            raise ConfigError("unknown-option", f"there is no variable {variable}{did_you_mean(variable, known)}")
        if words:  # set but empty is how a shell or a batch system says "not set"
            said[known[variable]] = (words, variable)
    return said


def _from_project(folder: str | None) -> _Said:
    """What [tool.pyio_trace] of the nearest pyproject.toml says; its output is relative to that file."""
    path = _find_project(folder)
    if path is None:
        return {}
    with open(path, "rb") as file:
        text = file.read()
    if b"pyio_trace" not in text:  # spares every other project the import of tomllib
        return {}
    import tomllib

    try:
        table = tomllib.loads(text.decode()).get("tool", {}).get("pyio_trace", {})
    except ValueError as error:
        raise ConfigError("bad-pyproject", f"{path} cannot be read: {error}") from None
    said: _Said = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in BY_NAME:
            raise ConfigError("unknown-option", f"{path}: there is no option {key!r}{did_you_mean(name, BY_NAME)}")
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
        if os.access(path, os.R_OK):
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
