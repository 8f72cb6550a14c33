"""python -m tests.surroundings [--drawn TEXT] [NAME ...] [-- pytest arguments]

Runs the quick tests in each of the named surroundings, or in all of them; with
--drawn in one that this machine has, which the text chooses.  Every third text
chooses the ordinary user with the system's Python, who runs all that README's
second command does.  Prints a table.  Exit status 1: a test failed in one of
them.  build/ci/surroundings-NAME.json has what each gave,
build/ci/surroundings.json what the drawn one gave.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

from tests.surroundings import listed
from tests.surroundings.listed import LISTED, CannotHere, Surrounding

RESULTS = Path("build/ci").absolute()
#: What is run before every commit (tox -e quick), and README's second command.
QUICK = ["--quick", "-n", "4", "--dist", "loadfile", "-q"]
README = ["-n", "4", "--dist", "loadfile", "-m", "not slow", "-q"]
#: How often, in texts, the user who follows README is drawn.
EVERY = 3
_README = (
    'cd "$0" && python3 -m venv .venv && .venv/bin/pip install -q ".[test]" && exec .venv/bin/python -m pytest "$@"'
)


def main(words: list[str]) -> int:
    """The command."""
    own, more = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    parser = argparse.ArgumentParser(prog="python -m tests.surroundings")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(one.name for one in LISTED))
    parser.add_argument("--drawn", metavar="TEXT", help="one of them alone: the same for the same text")
    chosen = parser.parse_args(own)
    wanted = [one for one in LISTED if not chosen.names or one.name in chosen.names]
    if unknown := set(chosen.names) - {one.name for one in LISTED}:
        parser.error(f"no such surroundings: {', '.join(sorted(unknown))}")
    if chosen.drawn:
        wanted = [drawn([one for one in wanted if _here(one)], chosen.drawn)]
        print(f"surroundings: {wanted[0].name} ({wanted[0].words})", flush=True)
    tests = README if chosen.drawn and wanted[0].installs else QUICK
    lines = [_one(one, [*tests, *more], "" if chosen.drawn else f"-{one.name}") for one in wanted]
    print(f"\n{'surroundings':<22}{'result':<8}{'passed':>7}{'failed':>7}{'skipped':>8}{'minutes':>8}")
    print("\n".join(lines))
    return int(any(" RED " in line for line in lines))


def drawn(those: list[Surrounding], text: str) -> Surrounding:
    """One of those, the same for the same text."""
    number = zlib.crc32(text.encode())
    users = [one for one in those if one.installs]
    if users and number % EVERY == 0:
        return users[0]
    return those[number // EVERY % len(those)]


def _here(one: Surrounding) -> bool:
    try:
        listed.check(one)
    except CannotHere:
        return False
    return True


def _one(one: Surrounding, more: list[str], ending: str) -> str:
    """Runs the tests in one of them; its line of the table."""
    results = RESULTS / f"surroundings{ending}.json"
    results.unlink(missing_ok=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="s", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        try:
            status = _run(one, [*one.flags, *more], Path(folder), results)
        except CannotHere as reason:
            return f"{one.name:<22}not run: {reason}"
    counts = json.loads(results.read_text())["counts"] if results.exists() else {}
    passed, failed, skipped = (counts.get(name, "-") for name in ("passed", "failed", "skipped"))
    minutes = (time.monotonic() - began) / 60
    return f"{one.name:<22}{'green' if status == 0 else 'RED':<7} {passed:>7}{failed:>7}{skipped:>8}{minutes:>8.1f}"


def _run(one: Surrounding, arguments: list[str], folder: Path, results: Path) -> int:
    """pytest's exit status."""
    results.parent.mkdir(parents=True, exist_ok=True)
    environment, pytest = dict(os.environ), [sys.executable, "-m", "pytest"]
    written = results
    if one.installs:
        tree, home = listed.tree_of_a_user(folder), folder / "home"
        environment |= {"HOME": str(home), "PATH": "/usr/bin:/bin", "TMPDIR": str(home)}
        home.mkdir(mode=0o700)
        os.chown(home, tree.stat().st_uid, tree.stat().st_gid)
        pytest, written = ["sh", "-c", _README, str(tree)], tree / "build" / "outcomes.json"
    with listed.started(one, [*pytest, *arguments, "--outcomes", str(written)], folder) as command:
        status = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL).returncode
    if written != results and written.exists():
        results.write_text(written.read_text())
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
