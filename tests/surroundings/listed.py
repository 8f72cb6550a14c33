"""The surroundings: how a command is started in each, and why one cannot be had here."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.processors import busy

#: A process-id namespace of its own, with its own /proc: its first process is 1.
_IDS = "unshare --mount --pid --fork --kill-child --mount-proc"
#: An ordinary user that Debian has: its group and name are known.
_USER = "nobody"
_BIG = 1_000_000


class CannotHere(Exception):
    """This machine lacks what the surrounding needs; the message says what."""


@dataclass(frozen=True)
class Surrounding:
    """One of them.

    start: shell text that ends by running "$@" there.  {folder} is an empty folder.  needs: a shell command that
    succeeds where it can be had.  lacking: what is missing where it does not.  flags: more arguments for pytest.
    beside: what runs meanwhile.  installs: README's second command does it all, as another user.
    """

    name: str
    words: str
    start: str = 'exec "$@"'
    needs: str = "true"
    lacking: str = ""
    flags: tuple[str, ...] = ("-p", "no:randomly")
    beside: Callable[[], Iterator[None]] | None = field(default=None, compare=False)
    installs: bool = False


def _four() -> Iterator[None]:
    with busy(4):
        yield


def _temporary(words: str, mount: str) -> Surrounding:
    """TMPDIR on a file system that is mounted for this run alone."""
    start = f"""
set -e; mkdir {{folder}}/here; {mount.replace("HERE", "{folder}/here")}
chmod 1777 {{folder}}/here; TMPDIR={{folder}}/here exec "$@"
"""
    tried = start.replace("{folder}", "$1").replace('"$@"', "true")
    probe = f"""folder=$(mktemp -d) && unshare --mount sh -c {shlex.quote(tried)} sh "$folder"
status=$?; rm -rf "$folder"; exit $status
"""
    return Surrounding(
        f"tmpdir-{words}", f"TMPDIR on {words}", f"exec unshare --mount sh -c {shlex.quote(start)} sh \"$@\"",
        probe, f"mounts, or {words}",
    )  # fmt: skip


_OVERLAY = "mkdir HERE-1 HERE-2 HERE-3; mount -t overlay -o lowerdir=HERE-1,upperdir=HERE-2,workdir=HERE-3 overlay HERE"
_EXT4 = "truncate -s 6G HERE.img; mkfs.ext4 -q HERE.img; mount -o loop HERE.img HERE"
_NUMBERS = f"echo 4194304 >/proc/sys/kernel/pid_max && echo {_BIG} >/proc/sys/kernel/ns_last_pid"
_IGNORES = """python3 -c '
import os, signal, sys
for name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2"):
    signal.signal(getattr(signal, name), signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGALRM, signal.SIGCHLD, signal.SIGRTMIN})
os.execvp(sys.argv[1], sys.argv[1:])' "$@"
"""
_TERMINAL = 'exec script -qec "$(printf "%q " "$@")" /dev/null </dev/null'

LISTED = [
    Surrounding("plain", "nothing special"),
    Surrounding("ids-from-1", "process ids from 1 up", f'exec {_IDS} "$@"', f"{_IDS} true", "namespaces"),
    Surrounding(
        "ids-of-7-digits", "process ids of seven digits",
        f"""exec {_IDS} sh -c '{_NUMBERS} && "$@"; exit $?' sh "$@" """,
        f"{_IDS} sh -c '{_NUMBERS} && [ $(sh -c \"echo \\$\\$\") -gt {_BIG} ]'",
        "namespaces with ids of their own range (Linux 6.14)",
    ),
    Surrounding("signals", "signals ignored and blocked", _IGNORES),
    Surrounding("no-terminal", "a session without a controlling terminal", 'exec setsid -w "$@"'),
    Surrounding("terminal", "a terminal of 80 columns", _TERMINAL, "command -v script", "script (util-linux)"),
    Surrounding("umask-077", "umask 077", 'umask 077; exec "$@"'),
    Surrounding("locale-C", "LC_ALL=C", 'LC_ALL=C LANG= exec "$@"'),
    Surrounding(
        "locale-de", "LC_ALL=de_DE.UTF-8",
        'localedef -i de_DE -f UTF-8 {folder}/de_DE.UTF-8 && LOCPATH={folder} LC_ALL=de_DE.UTF-8 LANGUAGE=de exec "$@"',
        "test -e /usr/share/i18n/locales/de_DE && command -v localedef", "Debian's package locales",
    ),
    _temporary("tmpfs", "mount -t tmpfs none HERE"),
    _temporary("overlayfs", _OVERLAY),
    _temporary("ext4", _EXT4),
    Surrounding("no-home", "HOME is not set", 'unset HOME; exec "$@"'),
    Surrounding("home-read-only", "HOME is not writable", 'HOME=/proc exec "$@"'),
    Surrounding("descriptors-256", "at most 256 descriptors", 'ulimit -n 256; exec "$@"'),
    Surrounding(
        "descriptors-million", "1,000,000 descriptors", f'ulimit -n {_BIG}; exec "$@"', f"ulimit -n {_BIG}",
        "the right to raise the limit",
    ),
    Surrounding(
        "ordinary-user", "README's second command, as an ordinary user with the system's Python",
        f'exec setpriv --reuid {_USER} --regid "$(id -g {_USER})" --clear-groups --inh-caps=-all "$@"',
        f"setpriv --reuid {_USER} --regid $(id -g {_USER}) --clear-groups /usr/bin/python3 -m ensurepip --version",
        "root, or /usr/bin/python3 with venv", installs=True,
    ),
    Surrounding(
        "random-order", "tests in random order", flags=(),
        needs=f"{shlex.quote(sys.executable)} -c 'import pytest_randomly'", lacking="pytest-randomly",
    ),
    Surrounding("busy", "four busy processes beside it", beside=_four),
]  # fmt: skip


def check(one: Surrounding) -> None:
    """Raises CannotHere if this machine does not have it."""
    found = subprocess.run(["bash", "-c", one.needs], stdin=subprocess.DEVNULL, capture_output=True)
    if found.returncode != 0:
        raise CannotHere(f"needs {one.lacking}")


@contextmanager
def started(one: Surrounding, command: list[str], folder: Path) -> Iterator[list[str]]:
    """The command to run instead, so that this one runs there.  folder: a new one, which it may fill."""
    check(one)
    words = ["bash", "-c", one.start.replace("{folder}", shlex.quote(str(folder))), "bash", *command]
    if one.beside is None:
        yield words
    else:
        with contextmanager(one.beside)():
            yield words


def tree_of_a_user(folder: Path) -> Path:
    """A copy of this tree that belongs to the ordinary user, and its home."""
    tree = folder / "tree"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], check=True, capture_output=True
    ).stdout
    for name in filter(None, os.fsdecode(listed).split("\0")):
        if (source := Path(name)).exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, tree / name)
    subprocess.run(["chown", "-R", f"{_USER}:", folder], check=True)
    return tree
