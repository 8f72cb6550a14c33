"""What the words mean that a user gives an option: a size, a duration, rules, a signal.

Each parser takes the words and the spelling to blame, and answers the value or
raises ConfigError.  Which option has which parser: OPTIONS in config.py.  Like
that module this one is imported before a traced program's first line, and
imports as little.
"""

from __future__ import annotations

import os

from pyio_trace.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

CATEGORIES = ("imports", "proc", "sys", "dev", "pipes", "sockets", "anonymous", "terminals")  # csrc/core/select.c
_LAYERS = ("app", "user", "hdf5", "mpiio", "stdio", "posix")
_DURATION_UNITS = {"": 1, "ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_SIZE_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
# Options that may be given otherwise than as a text: words with commas in between, and numbers.
SEVERAL = ("include", "exclude", "instruments")
NUMBERS = ("max_log_size", "min_duration", "min_size", "ring_size")
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
    if word.startswith(("/", "**/")):
        return word
    try:
        return os.path.abspath(word) + folder
    except OSError:
        raise ConfigError(
            "bad-rule", f"{name}: {word!r} starts in the current folder, which is gone; write the whole path"
        ) from None


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


def parse_choice(choices: tuple[str, ...], later: tuple[str, ...], slug: str) -> Callable[[str, str], str]:
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


def in_words(value: object, name: str) -> str:
    """A value given in Python as the words that a user would type: a text, for the log a path, for what has commas in
    between several of those too, for sizes and durations a number.  Raises ConfigError."""
    if name in SEVERAL and isinstance(value, (list, tuple, set, frozenset)):
        return ",".join(in_words(one, name) for one in value)
    if name == "quiet" and isinstance(value, bool):
        return "1" if value else "0"
    try:
        if name in NUMBERS and (isinstance(value, float) or hasattr(value, "__index__")):
            return str(value)  # ValueError: more digits than Python writes
        if isinstance(value, str) or name == "output" or (name in SEVERAL and hasattr(value, "__fspath__")):
            return os.fsdecode(value)  # type: ignore[arg-type]  # TypeError: that is no path
    except (TypeError, ValueError):
        pass
    ways = {"output": " or a path", **dict.fromkeys(NUMBERS, " or a number")}
    ways |= dict.fromkeys(SEVERAL, " or a list of texts")
    raise ConfigError("bad-value", f"{name}: this {type(value).__name__} cannot be it; give a text{ways.get(name, '')}")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``"; did you mean X?"`` where something known is near, else nothing."""
    from difflib import get_close_matches  # imports re: on the way to an error only

    near = get_close_matches(word, list(known), 1, 0.6)
    return f"; did you mean {near[0]}?" if near else ""
