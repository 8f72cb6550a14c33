"""python -m tests.repeat [--times N] TEST...: each test many times, beside three busy processes.

For a test that starts processes or sends signals: what passes once may depend
on who is faster.  Ends as pytest does.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from tests.support.processors import busy


def main(words: list[str]) -> int:
    """The command; pytest's exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.repeat")
    parser.add_argument("--times", type=int, default=100, help="how often each is run (default: %(default)s)")
    chosen, pytest = parser.parse_known_args(words)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--count={chosen.times}", *pytest]
    with busy(3):
        return subprocess.run(command).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
