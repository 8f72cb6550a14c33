"""Parses the text that a user gives an option (a size, a duration, rules, a signal), and what a process was started as.

Each parser of an option takes the text and the spelling to name in an error, and
returns the value or raises ConfigError.  OPTIONS in config.py says which option
has which parser.  At the end are those of a command line and of a launcher's
variables.  Traced programs import this module before their first line, so it
imports as little as config.py does, and defines no class.
"""

import os

from pyio_trace.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

CATEGORIES = ("imports", "proc", "sys", "dev", "pipes", "sockets", "anonymous", "terminals")  # csrc/core/state/filter.c
#: enum pt_mode, by number.
MODES = ("trace", "profile", "ring")
#: enum pt_stack_state, by number; "none": there are no stacks to record.
STACK_STATES = ("none", "full", "site", "off")
LOADER_WORKER = "DataLoader worker"  #: process_kind of a worker of PyTorch's
_DURATION_UNITS = {"": 1, "ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_SIZE_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
MINIMUM_LOG = 64 << 10  # the fixed region, a process entry and a chunk or two
MAXIMUM_LOG = 64 << 30  # ids have 32 bits and count units of 16 bytes (log_format.h)
_SHORTEST_PERIOD, _LONGEST_PERIOD = 10_000_000, 3_600_000_000_000  # ns
SAMPLING_MOST = 1000  # times a second; csrc/core/process/sampler.c
REDACT_MOST = 1024  # less than what csrc/core/redact/redact.c has room for


def parse_bytes(text: str, name: str) -> int:
    """Bytes from ``"4G"``, ``"512MiB"``, ``"1000000"``; units are powers of 1024."""
    number = text.strip().upper()
    for ending in ("IB", "B"):
        if number.endswith(ending):
            number = number[: -len(ending)]
            break
    unit = number[-1:] if number[-1:] in ("K", "M", "G", "T") else ""
    number = number[: len(number) - len(unit)].strip()
    try:
        size = int(float(number) * _SIZE_UNITS[unit])
    except (ValueError, OverflowError):
        raise ConfigError("bad-size", f"{name}: {text!r} is not a size; write bytes or such as 500M or 4G") from None
    if not 0 <= size < 1 << 62:
        raise ConfigError("bad-size", f"{name}: {text!r} is out of range")
    return size


def size_between(minimum: int, maximum: int, what_has: str) -> "Callable[[str, str], int]":
    """A parser of sizes within limits.  what_has: the subject and verb of its error, such as "a log has"."""

    def parse(text: str, name: str) -> int:
        size = parse_bytes(text, name)
        if not minimum <= size <= maximum:
            limits = f"{what_has} between {_size_text(minimum)} and {_size_text(maximum)}"
            raise ConfigError("bad-size", f"{name}: {text!r} is out of range; {limits}")
        return size

    return parse


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


def parse_rate(text: str, name: str) -> int:
    """How often a second, from ``"100"``; 0 for ``"off"``."""
    word = text.strip().lower()
    if word in ("off", "0"):
        return 0
    if not (word.isascii() and word.isdecimal() and len(word) < 5 and 1 <= int(word) <= SAMPLING_MOST):
        raise ConfigError("bad-value", f"{name}: {text!r} is not a rate; write off, or a number up to {SAMPLING_MOST}")
    return int(word)


def parse_period(text: str, name: str) -> int:
    """Nanoseconds between two looks at the system, from ``"1s"``; 0 for ``"off"``."""
    period = 0 if text.strip().lower() == "off" else parse_duration(text, name)
    if period and not _SHORTEST_PERIOD <= period <= _LONGEST_PERIOD:
        raise ConfigError("bad-value", f"{name}: {text!r} is out of range; write off, or a time from 10ms to 3600s")
    return period


def parse_rules(text: str, name: str) -> str:
    """Rules of --include or --exclude, separated by commas, in their canonical spelling.

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
            kinds = "layer:NAME, op:NAME, process:NAME or a path"
            raise ConfigError("bad-rule", f"{name}: {word!r} is not a rule; write {kinds}{near}")
        if kind == "layer" and not any(letter in what for letter in "*?["):
            _check_layer(what, name)
        return word
    return parse_path_pattern(word, name)


def _check_layer(layer: str, name: str) -> None:
    from pyio_trace.enums import LAYERS  # seldom needed: see log_constants.py

    if layer not in LAYERS:
        known = ", ".join(LAYERS)
        raise ConfigError("bad-rule", f"{name}: there is no layer {layer!r}{did_you_mean(layer, LAYERS)} ({known})")


def parse_path_pattern(word: str, name: str) -> str:
    """A pattern of paths (globs.py), of which ``~`` and relative ones with a slash become absolute."""
    if word.startswith("~"):
        word = os.path.expanduser(word)
    if ("/" not in word and word not in (".", "..")) or word.startswith(("/", "**/")) or "://" in word:
        return word
    folder = "/" if word.endswith("/") else ""
    try:
        return os.path.abspath(word) + folder
    except OSError:
        raise ConfigError(
            "bad-rule", f"{name}: {word!r} starts in the current folder, which is gone; write the whole path"
        ) from None


def parse_signal(text: str, name: str) -> str:
    """A signal's name, ``"USR2"`` or ``"SIGRTMIN+1"``, as ``"SIGUSR2"`` or ``"SIGRTMIN+1"``; empty: no signal."""
    word = text.strip().upper()
    if not word:
        return ""
    word = word if word.startswith("SIG") else f"SIG{word}"
    if not signal_number(word):
        raise ConfigError(
            "bad-value",
            f"{name}: {text!r} cannot ask for a dump; write USR1, USR2, QUIT, RTMIN+n or RTMAX-n: "
            "programs need the other signals, or the system sends them itself",
        )
    return word


def signal_number(word: str) -> int:
    """The number of a signal that may request a dump, from its name as returned by parse_signal(); 0: it may not.

    SEGV and the like may not: after each dump the faulting instruction would run again, for ever.
    """
    import signal  # only if a signal is named

    if word in ("SIGUSR1", "SIGUSR2", "SIGQUIT"):
        return int(signal.Signals[word])
    base, sign, number = word[:8], word[8:9], word[9:]
    if base not in ("SIGRTMIN", "SIGRTMAX") or (word[8:] and not (sign in "+-" and number.isdecimal())):
        return 0
    if len(number) > 2:
        return 0
    found = int(signal.Signals[base]) + int(sign + number if number else 0)
    return found if signal.SIGRTMIN <= found <= signal.SIGRTMAX else 0


def parse_flag(text: str, name: str) -> bool:
    """True or False from the usual words, in upper or lower case; empty is False."""
    word = text.strip().lower()
    if word in ("1", "true", "on", "yes", "y"):
        return True
    if word in ("", "0", "false", "off", "no", "n"):
        return False
    raise ConfigError("bad-value", f"{name}: {text!r} is neither on nor off; write 1 or 0")


def parse_output(text: str, name: str) -> "str | None":
    """The log's name or pattern; None, for empty text, is the default name."""
    if text == "-":
        raise ConfigError("bad-value", f"{name}: a log cannot be written to standard output; name a file")
    return text or None


def parse_mode(text: str, name: str) -> str:
    """A log's permissions as octal digits, such as ``"640"``: the owner may read and write, nobody may execute."""
    digits = text.strip().lower().removeprefix("0o")
    try:
        mode = int(digits, 8)
    except ValueError:
        mode = -1
    if mode < 0 or mode & ~0o644 or mode & 0o600 != 0o600:
        raise ConfigError("bad-value", f"{name}: {text!r} is not a mode for a log; write 600, 640, 604 or 644")
    return f"{mode:o}"


def parse_names(text: str, name: str) -> str:
    """Names of instruments, separated by commas, in lower case."""
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    for word in words:
        if not word.removeprefix("-").replace("_", "").replace(".", "").isalnum():
            names = "all, none, h5py or -h5py"
            raise ConfigError("bad-value", f"{name}: {word!r} is not a library's name; write {names}")
    return ",".join(words)


def parse_redact(text: str, name: str) -> str:
    """Patterns of names and the words ``argv`` and ``code``, separated by commas."""
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    for word in words:
        if not all(letter.isascii() and (letter.isalnum() or letter in "-_.*?") for letter in word):
            raise ConfigError(
                "bad-value", f"{name}: {word!r} is not a name; write argv, code, or names such as pin,*-pin"
            )
    said = ",".join(words)
    if len(said) > REDACT_MOST:
        raise ConfigError("bad-value", f"{name}: {len(said)} characters of names; there is room for {REDACT_MOST}")
    return said


def _size_text(size: int) -> str:
    """64 << 10 as "64K"."""
    unit = next(unit for unit in "TGMK" if size >= _SIZE_UNITS[unit])
    return f"{size // _SIZE_UNITS[unit]}{unit}"


def choice(*words: str) -> "Callable[[str, str], str]":
    """A parser of one word out of several, which are its attribute `words`."""

    def parse(text: str, name: str) -> str:
        word = text.strip().lower()
        if word not in words:
            near = did_you_mean(word, words)
            raise ConfigError("bad-value", f"{name}: {text!r} is not one of {', '.join(words)}{near}")
        return word

    parse.words = words  # type: ignore[attr-defined]
    return parse


def did_you_mean(word: str, known: "Iterable[str]") -> str:
    """``"; did you mean X?"`` if a known word is close, else an empty text."""
    from difflib import get_close_matches  # imports re, so only when there is an error

    near = get_close_matches(word, list(known), 1, 0.6)
    return f"; did you mean {near[0]}?" if near else ""


# ---- what a process was started as --------------------------------------------------------

#: Variables of each launcher: rank, number of ranks, rank on this host; "": it has none.  The innermost launcher comes
#: first: torchrun may run under srun, which then counts nodes, and mpirun may start its daemons by srun.
_LAUNCHERS = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),  # torchrun
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),  # Open MPI
    ("PMIX_RANK", "", ""),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),  # MPICH, Intel MPI
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),  # srun
)
_MOST = 1 << 31

#: Variables with the job's id: those of batch systems, the most common first, then those of launchers without one.
_JOBS = ("SLURM_JOB_ID", "SLURM_JOBID", "PBS_JOBID", "LSB_JOBID", "COBALT_JOBID", "FLUX_JOB_ID", "JOB_ID")
#: Those with the id of a step, which is one parallel program of a job: srun, PALS, torchrun, Ray.
_STEPS = ("SLURM_STEP_ID", "SLURM_STEPID", "PALS_APID", "TORCHELASTIC_RUN_ID", "RAY_JOB_ID")
#: Those with the node's name, where the batch system has one of its own for it.
_NODES = ("SLURMD_NODENAME", "PALS_NODENAME")
_LONGEST_WORD = 100


def program_of(words: "list[str]") -> "tuple[str, str]":
    """("c", code), ("m", module) or ("", script) from the words after `python`, parsed as Python parses them."""
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            return "", word
        if word.startswith("--"):
            at += word == "--check-hash-based-pycs"
            continue
        # Letters may be joined (-Bum module); c, m, W and X take a value, in this word or the next.
        valued = next((n for n in range(1, len(word)) if word[n] in "cmWX"), 0)
        if valued:
            value = word[valued + 1 :]
            if not value:
                value = words[at] if at < len(words) else ""
                at += 1
            if word[valued] in "cm":
                return word[valued], value
    return "", words[at] if at < len(words) else ""


def rank_in(environ: "Mapping[str, str]") -> "tuple[int, int | None, int | None] | None":
    """(rank, rank on this host, number of ranks) of a process with this environment; None: it is no rank.

    The number and the rank on the host come from the first launcher that gives
    this rank and has them, since PMIX has neither.
    """
    rank = local = size = None
    for of_rank, of_size, of_local in _LAUNCHERS:
        found = _number(environ, of_rank)
        if found is None or (rank is not None and found != rank):
            continue
        ranks = _number(environ, of_size)
        if (ranks is None and of_rank == "RANK") or (ranks is not None and found >= ranks):
            continue  # RANK alone may be any program's; a rank beyond the last is none
        rank = found
        size = ranks if size is None else size
        local = _number(environ, of_local) if local is None else local
    return None if rank is None else (rank, local, size)


def job_in(environ: "Mapping[str, str]") -> "dict[str, str]":
    """The node, job and step of a process with this environment; "" for what it does not say.

    A launcher's own id stands for the job where no batch system has one.  Each is
    a word of at most 100 printable characters of ASCII.
    """
    job, step = first_word(environ, _JOBS), first_word(environ, _STEPS)
    return {"node": first_word(environ, _NODES), "job": job or step, "step": step if job else ""}


def node_in(environ: "Mapping[str, str]") -> str:
    """The node's name: the batch system's, or the host's without its domain."""
    return first_word(environ, _NODES) or _word(os.uname().nodename.partition(".")[0])


def first_word(environ: "Mapping[str, str]", names: "tuple[str, ...]") -> str:
    """The first of these variables that says something, as at most 100 printable characters of ASCII; "": none does."""
    # torchrun's id is "none" where nobody has given it one
    return next((word for name in names if (word := _word(environ.get(name, ""))) not in ("", "none")), "")


def _word(text: str) -> str:
    return "".join(c if "!" <= c <= "~" else "_" for c in text[:_LONGEST_WORD])


def _number(environ: "Mapping[str, str]", name: str) -> "int | None":
    text = environ.get(name, "")
    if not text.isascii() or not text.isdigit() or len(text) > 10:
        return None
    number = int(text)
    return number if number < _MOST else None
