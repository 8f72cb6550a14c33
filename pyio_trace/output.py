"""Where a run's log goes: the default name, and the ``%x`` patterns of ``-o`` and PYIO_TRACE_OUTPUT.

Traced programs import it before their first line, so it needs only os and time.
What may be overwritten is decided by existing_files.py.
"""

import os
import time

from pyio_trace.errors import ConfigError
from pyio_trace.values import job_in, node_in, rank_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LIVE_SUFFIX = ".pyio"
PACKED_SUFFIX = ".parquet"
_MEMORY = "/dev/shm"
_LONGEST = 4000  # the system allows 4095, and the log's temporary name is longer
DEFAULT_PATTERN = "pyio-%s-%h-%t-%p.parquet"


def log_paths(
    pattern: "str | None",
    script: str,
    environ: "Mapping[str, str]" = os.environ,
    *,
    make_folder: bool = True,
    check_live: bool = True,
) -> "tuple[str, str | None]":
    """The paths of a run's live log, and of the Parquet log it is packed into (None: it stays live).

    pattern: the value of ``-o``; None: the default name in the current folder.
    A folder gets the default name inside it, and is made if it does not exist.
    A default name, or one with a process id or time, gets a number if it is in use.
    Each rank of a parallel job has a log of its own: a name without %r or %p gets
    the rank at its end, run-rank0.pyio.
    check_live: False if the core is about to make the live log, or to refuse to.
    Both paths are absolute.  Raises ConfigError for an impossible pattern, a
    folder that cannot be made, or a file in the way that is not a log of ours.
    """
    named = expand_pattern(os.path.expanduser(pattern or DEFAULT_PATTERN), script, environ)
    if named.endswith("/") or os.path.isdir(named):
        named, pattern = os.path.join(named, expand_pattern(DEFAULT_PATTERN, script, environ)), None
    elif pattern is not None:
        named = _of_rank(named, pattern, environ)
    try:
        named = os.path.abspath(named)
    except OSError:
        raise ConfigError(
            "no-such-folder", "the log cannot be written: the current folder is gone; name another place with -o"
        ) from None
    if len(os.fsencode(named)) > _LONGEST:
        raise ConfigError("unwritable-log", f"the log's path is longer than {_LONGEST} bytes; name another with -o")
    if make_folder:
        _make_folder(os.path.dirname(named))
    live, final = _pair(named)
    if pattern is None or "%p" in pattern or "%t" in pattern:
        return _unused(live, final)
    for path in (live, final) if check_live else (final,):
        if path is not None and not _is_free(path):
            from pyio_trace.existing_files import check_replaceable  # most logs have a new name

            check_replaceable(path, may_be_numbered="%" in pattern)
    return live, final


def _of_rank(named: str, pattern: str, environ: "Mapping[str, str]") -> str:
    """The name for the log of this rank, if the pattern gives several ranks the same name."""
    rank = rank_in(environ)
    if rank is None or rank[2] == 1 or "%r" in pattern or "%p" in pattern:
        return named
    stem, suffix = os.path.splitext(named)
    return f"{stem}-rank{rank[0]}{suffix}"


def _is_free(path: str) -> bool:
    """Whether nothing has this name; False if that cannot be found out."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return True
    except OSError:
        pass
    return False


def _pair(named: str) -> "tuple[str, str | None]":
    """(live log, Parquet log or None) for the name that the user has given."""
    if named.endswith(PACKED_SUFFIX):
        return named[: -len(PACKED_SUFFIX)] + LIVE_SUFFIX, named
    return named, None


def packed_name(live: str) -> "str | None":
    """The Parquet log that a live log of this name usually becomes; None: its name is that of no live log."""
    return live[: -len(LIVE_SUFFIX)] + PACKED_SUFFIX if live.endswith(LIVE_SUFFIX) else None


def _make_folder(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise ConfigError("no-such-folder", f"the log's folder {folder!r} cannot be made: {error.strerror}") from None


def numbered(live: str, final: "str | None") -> "Iterator[tuple[str, str | None]]":
    """Other names for a log whose name another run uses: run-2.pyio, run-3.pyio ...

    No file has them yet: only a file that the user has named may be replaced.
    """
    stem, suffix = os.path.splitext(live)
    for number in range(2, 10_000):
        other = f"{stem}-{number}{suffix}"
        packed = None if final is None else f"{os.path.splitext(final)[0]}-{number}{os.path.splitext(final)[1]}"
        if not os.path.lexists(other) and (packed is None or not os.path.lexists(packed)):
            yield other, packed


def _unused(live: str, final: "str | None") -> "tuple[str, str | None]":
    """These names, which were to be new ones, with a number if a file has one of them: that may be the log of another
    container, whose host and process ids have the same names."""
    if all(path is None or _is_free(path) for path in (live, final)):
        return live, final
    return next(numbered(live, final), (live, final))


def log_paths_beside(live: str, final: "str | None") -> "tuple[str, str | None]":
    """Names for the log of a process that cannot join its run's log: with the host and the process id."""
    stem, suffix = os.path.splitext(final or live)
    return _unused(*_pair(f"{stem}-{_host()}-{os.getpid()}{suffix}"))


def is_temporary(name: str) -> bool:
    """Whether a file is an unfinished log, perhaps left behind by a program that was killed."""
    return name.startswith(".pyio-") and name.endswith(".tmp")


def memory_path(live: str) -> "str | None":
    """A path in memory for a live log that cannot be mapped in its place (some network and FUSE file systems).

    None if there is no such file system.
    """
    if not os.access(_MEMORY, os.W_OK):
        return None
    return os.path.join(_MEMORY, f"{os.getpid()}-{os.urandom(4).hex()}-{os.path.basename(live)}"[-200:])


def memory_pattern(pattern: str) -> str:
    """The glob pattern of the logs that memory_path() has put in memory, from the pattern of their own names."""
    return os.path.join(_MEMORY, f"[0-9]*-????????-{os.path.basename(pattern)}")


def original_name(live: str) -> str:
    """The intended name of a live log: in memory it follows two words that memory_path() has put in front."""
    folder, name = os.path.split(live)
    pid, _, rest = name.partition("-")
    word, _, own = rest.partition("-")
    return own if folder == _MEMORY and pid.isdigit() and len(word) == 8 and own else name


def expand_pattern(pattern: str, script: str, environ: "Mapping[str, str]" = os.environ) -> str:
    """Replace %h host, %p pid, %s script, %t time, %j job id, %n node, %r rank and %%.

    Raises ConfigError for other letters.
    """
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


def _expansion(letter: str, pattern: str, script: str, environ: "Mapping[str, str]") -> str:
    if letter == "h":
        return _host()
    if letter == "p":
        return str(os.getpid())
    if letter == "s":
        return script_name(script)
    if letter == "t":
        return time.strftime("%Y%m%dT%H%M%S")
    if letter == "j":
        return safe_name(job_in(environ)["job"]) or "nojob"
    if letter == "n":
        return safe_name(node_in(environ)) or "node"
    if letter == "r":
        rank = rank_in(environ)
        return "norank" if rank is None else str(rank[0])
    raise ConfigError(
        "bad-pattern",
        f"the log's name {pattern!r} has %{letter}; "
        "there are %h host, %p pid, %s script, %t time, %j job id, %n node, %r rank, %%",
    )


def _host() -> str:
    return safe_name(os.uname().nodename) or "host"


def script_name(script: str) -> str:
    """A script's path, a module's name or ``-c``, as part of a file name."""
    name = os.path.basename(script.rstrip("/")) or "python"
    if name.endswith((".py", ".pyw", ".pyz")):
        name = name[: name.rindex(".")]
    return safe_name(name.strip("-")) or "command"


def safe_name(text: str) -> str:
    """Text made safe as part of a file name: without slashes and the like."""
    return "".join(c if c.isalnum() or c in "._-+@" else "_" for c in text)[:100]
