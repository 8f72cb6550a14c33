"""Where a run's log goes: names, patterns, and what may be overwritten.

Owns the answer to "which file?" for a launch: the default name, the ``%x``
patterns of ``-o`` and PYIO_TRACE_OUTPUT, and the rule that only our own logs
are ever replaced, and never those that a command reads.  Imported on the way to a traced program's first line, so
it needs os and time only; it reads a few bytes of an existing file by itself
instead of importing the log reader (pyio_trace/log/), which needs pyarrow.
"""

from __future__ import annotations

import os
import stat
import time

from pyio_trace.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from io import BufferedReader

LIVE_SUFFIX = ".pyio"
PACKED_SUFFIX = ".parquet"
_MEMORY = "/dev/shm"
_LONGEST = 4000  # the system takes 4095, and a temporary name stands beside the log's
DEFAULT_PATTERN = "pyio-%s-%t-%p.parquet"

# The first bytes of a live log: PT_LOG_MAGIC in csrc/core/log_format.h.
LIVE_MAGIC = b"PYIOLOG\n"
# Where pt_header keeps owner_pid: after magic, version, first_chunk, budget, next, run_id.
_OWNER_PID_AT = 40
_PARQUET_MAGIC = b"PAR1"
# Every Parquet log has this in the names of its key-value metadata (pyio_trace/log/).
_PACKED_MARK = b"pyio_trace"

# Where batch systems put the number of the job, the likeliest first.
_JOB_VARIABLES = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "COBALT_JOBID", "FLUX_JOB_ID", "JOB_ID")


def log_paths(pattern: str | None, script: str, environ: Mapping[str, str] = os.environ) -> tuple[str, str | None]:
    """The files of a run: the live log, and the Parquet log it becomes (None: it stays live).

    pattern: what ``-o`` said, or None for the default name in the current
    folder; a folder gets the default name inside it.  Both answers are
    absolute.  Raises ConfigError for a pattern that cannot be, a folder that
    is not there, or a file in the way that is not a log of ours.
    """
    named = expand_pattern(os.path.expanduser(pattern or DEFAULT_PATTERN), script, environ)
    if named.endswith("/") or os.path.isdir(named):
        named = os.path.join(named, expand_pattern(DEFAULT_PATTERN, script, environ))
    try:
        named = os.path.abspath(named)
    except OSError:
        raise ConfigError(
            "no-such-folder", "the log cannot be written: the current folder is gone; name another place with -o"
        ) from None
    if len(os.fsencode(named)) > _LONGEST:
        raise ConfigError("unwritable-log", f"the log's path is longer than {_LONGEST} bytes; name another with -o")
    folder = os.path.dirname(named)
    if not os.path.isdir(folder):
        raise ConfigError("no-such-folder", f"the log cannot be written: there is no folder {folder!r}; make it first")
    if named.endswith(PACKED_SUFFIX):
        live, final = named[: -len(PACKED_SUFFIX)] + LIVE_SUFFIX, named
    else:
        live, final = named, None
    for path in (live, final):
        if path is not None:
            check_replaceable(path)
    return live, final


def in_memory(live: str) -> str | None:
    """A place for a live log whose own cannot be mapped (some network and FUSE file systems); None: there is none."""
    if not os.access(_MEMORY, os.W_OK):
        return None
    return os.path.join(_MEMORY, f"{os.getpid()}-{os.urandom(4).hex()}-{os.path.basename(live)}"[-200:])


def named_in_memory(pattern: str) -> str:
    """Of a pattern of names as glob has them: what finds the logs that in_memory() has given a place instead."""
    return os.path.join(_MEMORY, f"[0-9]*-????????-{os.path.basename(pattern)}")


def own_name(live: str) -> str:
    """The name that a live log was to have: in memory it stands behind two words of in_memory()'s."""
    folder, name = os.path.split(live)
    pid, _, rest = name.partition("-")
    word, _, own = rest.partition("-")
    return own if folder == _MEMORY and pid.isdigit() and len(word) == 8 and own else name


def expand_pattern(pattern: str, script: str, environ: Mapping[str, str] = os.environ) -> str:
    """Fill in %h host, %p pid, %s script, %t time, %j job id and %%; other letters are an error."""
    if "%" not in pattern:
        return pattern
    parts = pattern.split("%")
    done = [parts[0]]
    at = 1
    while at < len(parts):
        part = parts[at]
        if not part:  # "%%", or "%" as the last character
            if at + 1 == len(parts):
                raise ConfigError("bad-pattern", f"the log's name {pattern!r} ends in a lone %; write %%")
            done.append("%" + parts[at + 1])
            at += 2
            continue
        done.append(_expansion(part[0], pattern, script, environ) + part[1:])
        at += 1
    return "".join(done)


def _expansion(letter: str, pattern: str, script: str, environ: Mapping[str, str]) -> str:
    if letter == "h":
        return os.uname().nodename
    if letter == "p":
        return str(os.getpid())
    if letter == "s":
        return script_name(script)
    if letter == "t":
        return time.strftime("%Y%m%dT%H%M%S")
    if letter == "j":
        return next((_safe(environ[name]) for name in _JOB_VARIABLES if environ.get(name)), "nojob")
    raise ConfigError(
        "bad-pattern",
        f"the log's name {pattern!r} has %{letter}; there are %h host, %p pid, %s script, %t time, %j job id, %%",
    )


def script_name(script: str) -> str:
    """A script's path, a module's name or ``-c`` as part of a file name."""
    name = os.path.basename(script.rstrip("/")) or "python"
    if name.endswith((".py", ".pyw", ".pyz")):
        name = name[: name.rindex(".")]
    return _safe(name.strip("-")) or "command"


def _safe(text: str) -> str:
    return "".join(c if c.isalnum() or c in "._-+@" else "_" for c in text)[:100]


def check_replaceable(path: str) -> None:
    """Raise ConfigError unless a new log may take this path's place.

    Free are: nothing there, an empty file, a log of ours that no process is
    still writing.  Anything else is somebody's data, or no file at all: a new
    log takes its name from what has it, be it a device.
    """
    _check_is_file(path)
    try:
        kind = os.stat(path).st_mode
        if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):  # a pipe would keep us waiting
            raise ConfigError("log-exists", f"{path!r} is no file that a log can be in: name another with -o")
        with open(path, "rb") as file:
            start = file.read(_OWNER_PID_AT + 4)
            ours = (
                not start or start.startswith(LIVE_MAGIC) or (start.startswith(_PARQUET_MAGIC) and _is_packed_log(file))
            )
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError("unwritable-log", f"the log {path!r} cannot be written: {error.strerror}") from None
    if not ours:
        raise ConfigError(
            "log-exists", f"{path!r} exists and is not a log of ours: name another file with -o, or remove it"
        )
    if start.startswith(LIVE_MAGIC) and len(start) >= _OWNER_PID_AT + 4:
        owner = int.from_bytes(start[_OWNER_PID_AT : _OWNER_PID_AT + 4], "little")
        if owner != os.getpid() and _maps(owner, path):  # an earlier stretch of this process stays mapped, and is over
            raise ConfigError(
                "log-in-use", f"{path!r} is being written by process {owner}: name another with -o (%p: unique)"
            )


def _check_is_file(path: str) -> None:
    """Raise ConfigError where something has the name that is neither a regular file nor a link to one.

    It is not opened: a FIFO would keep us waiting.  csrc/core/log.c has the same rule.
    """
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return  # nothing there, or whoever opens it will say why not
    if stat.S_ISDIR(mode):
        raise ConfigError("not-a-log", f"{path!r} is a folder: name a file in it for the log")
    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
    kind = kinds.get(stat.S_IFMT(mode))
    if kind is None and os.path.islink(path) and path.startswith(("/dev/", "/proc/")) and not path.startswith(_MEMORY):
        kind = "a link of the system's"  # /dev/stdout
    if kind is not None:
        raise ConfigError("not-a-file", f"{path!r} is {kind}, which a log would replace: name a file for the log")


def check_output(log: str, output: str) -> None:
    """Raise ConfigError where writing to output would destroy what is read: the log, or one of a folder of logs.

    Devices that hold data are refused too; others, pipes and terminals may be written to.
    """
    try:
        there = os.stat(output)
    except OSError:
        return
    if stat.S_ISBLK(there.st_mode):
        raise ConfigError("not-a-file", f"{output}: a device with data on it; name a file")
    if not stat.S_ISREG(there.st_mode):
        return
    read = [log]
    if os.path.isdir(log):
        read = [entry.path for entry in os.scandir(log) if entry.is_file() and _is_log(entry.path)]
    if any(os.path.exists(path) and os.path.samestat(os.stat(path), there) for path in read):
        raise ConfigError("contradictory-options", f"{output}: the log that is read here; name another file to write")


def _is_log(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            start = file.read(len(LIVE_MAGIC))
            return start == LIVE_MAGIC or (start.startswith(_PARQUET_MAGIC) and _is_packed_log(file))
    except OSError:
        return False


def _is_packed_log(file: BufferedReader) -> bool:
    """Whether an open Parquet file is one of ours; its footer says so."""
    size = file.seek(0, os.SEEK_END)
    if size < 12:
        return False
    file.seek(size - 8)
    tail = file.read(8)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != _PARQUET_MAGIC or length + 12 > size:
        return False
    file.seek(size - 8 - length)
    return _PACKED_MARK in file.read(length)


def _maps(pid: int, path: str) -> bool:
    """Whether a process of this machine has the file mapped now."""
    try:
        inode = os.stat(path).st_ino
        with open(f"/proc/{pid}/maps", "rb") as maps:
            return any(line.split(None, 5)[4] == str(inode).encode() for line in maps)
    except (OSError, IndexError):
        return False
