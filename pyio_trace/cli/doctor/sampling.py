"""Whether a sampler may look at a program's threads here, from a trial; if not, why, and how to allow it."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Looks a second at the trial's program.
HZ = 1000
#: How long that program waits to be seen, s: on a busy machine the second trial says more.
PAUSES = (0.2, 2.0)
UNKNOWN = "not known: "

_CAPABILITY_SYS_PTRACE = 19
_SECCOMP_FILTER = 2
#: Error -> why, and what to do, where it does not depend on the surroundings.
_WHY = {
    errno.ECHILD: "none could stay beside the program; if that is process 1 of a container, start it below an init "
    "(docker run --init)",
    errno.EAGAIN: "there is no process number left; raise `ulimit -u` or the container's pids.max",
    errno.ENOMEM: "there is no memory for it; raise the limit of memory",
    errno.ENOSYS: "the kernel is older than Linux 5.3, or a filter of system calls answers so; a container's may have "
    "to allow process_vm_readv and pidfd_open",
}


def sampling(info: dict[str, Any], looks: int, lines: int, root: Path = Path("/")) -> str:
    """What a trial says.  info: of its log; looks, lines: how many there were, and how many with a line; root: for
    /proc."""
    error = info.get("sampler_refused", 0)
    if "sampling_hz" not in info:
        return "no: there is none for free-threaded builds of Python, nor in a pid namespace of its own"
    if lines:
        return "works: --sample HZ sees lines"
    if error in _WHY:
        return f"no: {_WHY[error]}"
    if error in (errno.EPERM, errno.EACCES):
        return f"no: reading another process is forbidden{': ' if (why := '; '.join(_forbids(root))) else ''}{why}"
    if error:
        return f"no: it could not be started ({errno.errorcode.get(error, error)})"
    return UNKNOWN + ("it has looked, and seen no line" if looks else f"it has not looked within {PAUSES[-1]:g} s")


def _forbids(root: Path) -> Iterator[str]:
    """What forbids a process to read another one of its user, and how to allow it."""
    scope = _text(root / "proc/sys/kernel/yama/ptrace_scope").strip()
    if scope in ("2", "3"):
        how = "only a restart does" if scope == "3" else "root's `sysctl kernel.yama.ptrace_scope=1` does"
        yield f"Yama's ptrace_scope is {scope}, and has to be 0 or 1: {how}"
    status = dict(re.findall(r"^(\w+):\s*(\S+)", _text(root / "proc/self/status"), re.MULTILINE))
    if status.get("Seccomp") == str(_SECCOMP_FILTER):
        yield (
            "a filter of system calls (seccomp) is in force; a container needs --cap-add SYS_PTRACE, or a profile "
            "that allows process_vm_readv"
        )
    elif not scope and _has_no(_CAPABILITY_SYS_PTRACE, status.get("CapEff", "")):
        yield "the capability SYS_PTRACE is missing (docker run --cap-add SYS_PTRACE)"
    if re.search(r"^\S+ /proc proc \S*hidepid=(?!0|off)\w+", _text(root / "proc/mounts"), re.MULTILINE):
        yield "/proc hides other processes (hidepid): root's `mount -o remount,hidepid=0 /proc` shows them"


def _has_no(capability: int, hexadecimal: str) -> bool:
    return re.fullmatch("[0-9a-f]+", hexadecimal) is not None and not int(hexadecimal, 16) >> capability & 1


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
