"""Running strace and reading its lines: every file call of every thread, each with the stack that made it.

The stack (`strace -k`) is the evidence for whose call it is: callsite.py.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

#: All calls on names and descriptors of files, and what changes the meaning of a descriptor or makes a process.
CALLS = """
    open openat openat2 creat read write pread64 pwrite64 readv writev preadv pwritev preadv2 pwritev2 lseek close
    close_range stat lstat fstat newfstatat statx access faccessat faccessat2 rename renameat renameat2 unlink
    unlinkat rmdir mkdir mkdirat ftruncate truncate fsync fdatasync syncfs sync_file_range copy_file_range sendfile
    splice tee readlink readlinkat symlink symlinkat link linkat chmod fchmod fchmodat fchmodat2 chown lchown fchown
    fchownat utime utimes utimensat futimesat mknod mknodat fallocate flock statfs fstatfs getxattr lgetxattr
    fgetxattr setxattr lsetxattr fsetxattr listxattr llistxattr flistxattr removexattr lremovexattr fremovexattr
    fadvise64 readahead getdents64 chdir fchdir chroot fcntl dup dup2 dup3 mmap munmap msync madvise mremap
    name_to_handle_at open_by_handle_at ioctl
    clone clone3 fork vfork execve execveat pipe pipe2 socket socketpair accept accept4
""".split()  # noqa: SIM905

LINE = re.compile(r"^(?P<tid>\d+) +(?P<name>\w+)\((?P<args>.*)\) += (?P<result>0x[0-9a-f]+|-?\d+|\?)(?P<rest>.*)$")
UNFINISHED = re.compile(r"^(?P<tid>\d+) +(?P<start>\w+\(.*) ?<unfinished \.\.\.>$")
RESUMED = re.compile(r"^(?P<tid>\d+) +<\.\.\. \w+ resumed>(?P<rest>.*)$")
EXITED = re.compile(r"(\d+) +\+\+\+ exited with ")
FRAME = re.compile(r"^ > (?P<object>.*?)\((?P<symbol>[^()+]*)(?:\+0x[0-9a-f]+)?\) \[0x[0-9a-f]+\]$")
RESTARTED = re.compile(r" (ERESTART\w+) ")
#: An argument: a string, a structure or an array, a descriptor with its file, or a plain word.
PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|<(?:[^>\\]|\\.)*>|[\[\]{},]|[^"<\[\]{},]+|<')
ESCAPE = re.compile(r"\\(x[0-9a-f]{2}|[0-7]{1,3}|.)")
PLAIN_ESCAPES = {"n": 10, "t": 9, "r": 13, "v": 11, "f": 12}


@dataclass(slots=True)
class Call:
    """One system call.  result None: it never returned.  frames: (object, function), innermost first.

    start, end: line numbers; between two calls of one thread, and no more, they tell the order.
    """

    tid: int
    name: str
    args: list[str]
    result: int | None
    error: str
    returned: str
    frames: tuple[tuple[str, str], ...]
    start: int
    end: int
    restarted: bool = False


@dataclass
class Recording:
    """What strace wrote of a program: its calls by the line they began at; exited: threads that no signal ended."""

    calls: list[Call] = field(default_factory=list)
    exited: set[int] = field(default_factory=set)
    unread: list[str] = field(default_factory=list)


@functools.cache
def _stack_cache() -> Path | None:
    """The library that makes `strace -k` fast, if it can be built here."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    folder = Path(tempfile.mkdtemp(prefix="pyio-strace-"))
    path = folder / "stackcache.so"
    source = Path(__file__).with_name("stackcache.c")
    built = subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", str(path), str(source), "-ldl"], check=False)
    return path if built.returncode == 0 else None


def command(output: Path, stacks: bool = True) -> tuple[list[str], dict[str, str]]:
    """(the words before the program's, environment variables for strace alone)."""
    calls = ",".join(f"?{name}" for name in CALLS)
    vectors = "!readv,writev,preadv,pwritev,preadv2,pwritev2"  # all their lengths are wanted
    words = ["strace", "-f", "-q", "-y", "-s", "64", "-e", f"abbrev={vectors}", "-e", "signal=none"]
    words += ["-e", f"trace={calls}", "-o", str(output)]
    cache = _stack_cache() if stacks else None
    if stacks:
        words += ["-k", "--seccomp-bpf"]
    if cache is None:
        return words, {}
    return [*words, "-E", "LD_PRELOAD"], {"LD_PRELOAD": str(cache)}


@functools.cache
def has_stacks() -> bool:
    """Whether this strace can print stacks."""
    if shutil.which("strace") is None:
        return False
    told = subprocess.run(["strace", "-V"], check=True, capture_output=True, text=True).stdout
    return "stack-trace" in told


def read(output: Path) -> Recording:
    """All calls of a recording, in the order in which they began."""
    found = Recording()
    pending: dict[str, tuple[int, str]] = {}
    last: Call | None = None
    frames: list[tuple[str, str]] = []
    interned: dict[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]] = {}
    parsed: dict[str, tuple[str, str]] = {}

    def close() -> None:
        if last is not None and frames:
            last.frames = interned.setdefault(tuple(frames), tuple(frames))
        frames.clear()

    with output.open(errors="backslashreplace") as lines:
        for number, line in enumerate(lines):
            line = line.rstrip("\n")
            if line.startswith(" > "):
                if line not in parsed:
                    match = FRAME.match(line)
                    parsed[line] = (match["object"], match["symbol"]) if match else (line[3:].split("(")[0], "")
                frames.append(parsed[line])
                continue
            close()
            last = None
            start = number
            if match := UNFINISHED.match(line):
                pending[match["tid"]] = (number, match["start"])
                continue
            if match := RESUMED.match(line):
                if match["tid"] not in pending:  # a thread that became another program
                    continue
                start, begun = pending.pop(match["tid"])
                line = f"{match['tid']} {begun}{match['rest']}"
            last = _call(line, start, number)
            if last is not None:
                found.calls.append(last)
            elif match := EXITED.match(line):
                found.exited.add(int(match[1]))
            elif " +++ " not in line and " --- " not in line and "???" not in line:
                found.unread.append(line)
        close()
    for tid, (start, text) in pending.items():  # killed in the middle
        call = _call(f"{tid} {text}) = ?", start, start)
        if call is not None:
            found.calls.append(call)
    found.calls.sort(key=lambda call: call.start)
    return found


def _call(line: str, start: int, end: int) -> Call | None:
    match = LINE.match(line)
    if match is None:
        return None
    result = None if match["result"] == "?" else int(match["result"], 0)
    rest = match["rest"]
    restarted = result is None and RESTARTED.match(rest) is not None
    error = rest.split(maxsplit=1)[0] if result == -1 and rest.strip() else ""
    returned = rest[1:-1] if rest.startswith("<") else ""
    return Call(
        int(match["tid"]), match["name"], list(arguments(match["args"])), result, error, unescaped(returned), (),
        start, end, restarted,
    )  # fmt: skip


def arguments(text: str) -> Iterator[str]:
    """The arguments of a call, split at the commas between them."""
    depth, piece = 0, ""
    for part in PIECE.findall(text):
        if part == "," and depth == 0:
            yield piece.strip()
            piece = ""
            continue
        depth += (part in "[{") - (part in "]}") if len(part) == 1 else 0
        piece += part
    if piece.strip():
        yield piece.strip()


def unescaped(text: str) -> str:
    """The text that strace spelt in C, as the log spells it: UTF-8, other bytes as \\xNN."""
    if "\\" not in text:
        return text
    out = bytearray()
    at = 0
    for match in ESCAPE.finditer(text):
        out += text[at : match.start()].encode()
        word = match[1]
        if word[0] == "x":
            out.append(int(word[1:], 16))
        elif word[0].isdigit():
            out.append(int(word, 8))
        else:
            out.append(PLAIN_ESCAPES.get(word, ord(word[0])))
        at = match.end()
    out += text[at:].encode()
    return out.decode("utf-8", "backslashreplace")


def string(argument: str) -> str | None:
    """The text of a string argument; None for other arguments."""
    if not argument.startswith('"'):
        return None
    return unescaped(argument[1 : argument.rindex('"')])


def descriptor(argument: str) -> tuple[int, str]:
    """(number, what strace says it is) of a descriptor argument; AT_FDCWD is -100."""
    match = re.match(r"(-?\d+|AT_FDCWD)(?:<((?:[^>\\]|\\.)*)>)?(.*)$", argument, re.S)
    if match is None:
        return -1, ""
    deleted = "(deleted)" if match[3] == "(deleted)" else ""
    return -100 if match[1] == "AT_FDCWD" else int(match[1]), unescaped(match[2] or "") + deleted
