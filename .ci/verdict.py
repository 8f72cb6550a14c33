"""The end of .ci/run: what failed and is run once more, and one table of all stages.

  verdict.py failed NAME    prints the tests of NAME that failed, each ended by a NUL, for a second run
  verdict.py                prints what failed, the table, and exits with 0 if all is green

build/ci/stages has a line for each stage: its name, exit status, seconds, and the
names of its sessions of pytest.  build/ci/NAME.json is what such a session found
(tests/support/outcomes.py), and NAME.first.json what it found first, if some of it
was run again.

A test that fails and then passes alone is unstable.  One of these leaves the
whole green, so that chance does not decide; two do not.  It has a cause all the
same, which belongs in tests/UNSTABLE.md.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

RESULTS = Path("build/ci")
#: More failures than this in one session are no chance.
MOST_AGAIN = 10
MOST_UNSTABLE = 1
#: So many tests that took longest are shown.
SLOWEST = 20
#: A stage that this machine cannot run, and that has said why.
CANNOT = 77


def failed(name: str) -> None:
    """Prints the tests to run again, and keeps what the session found as its first result."""
    path = RESULTS / f"{name}.json"
    tests = list(json.loads(path.read_text())["failed"]) if path.exists() else []
    if 0 < len(tests) <= MOST_AGAIN:
        path.rename(RESULTS / f"{name}.first.json")
        sys.stdout.write("".join(f"{test}\0" for test in tests))


@dataclass
class Session:
    """One session of pytest.  found: it ended by itself, and so did its second run, if it had one."""

    name: str
    found: bool = False
    passed: int = 0
    skipped: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    unstable: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, name: str) -> Session:
        path, first_path = RESULTS / f"{name}.json", RESULTS / f"{name}.first.json"
        last = json.loads(path.read_text()) if path.exists() else None
        first = json.loads(first_path.read_text()) if first_path.exists() else last
        if first is None:
            return cls(name)
        still = last["failed"] if last else first["failed"]
        # what the second run did not reach, it has not shown to be right
        complete = last is first or (last is not None and sum(last["counts"].values()) >= len(first["failed"]))
        texts = {test: f"load {one['load']:.1f}\n{one['text']}" for test, one in first["failed"].items()}
        unstable = {test: text for test, text in texts.items() if test not in still} if complete else {}
        counts = first["counts"]
        left = {test: text for test, text in texts.items() if test not in unstable}
        return cls(name, last is not None, counts["passed"], counts["skipped"], first["seconds"], left, unstable)


@dataclass
class Stage:
    name: str
    status: int
    seconds: int
    sessions: list[Session]

    @property
    def green(self) -> bool:
        """It ended with 0, or unstable tests alone explain why it did not."""
        if self.status in (0, CANNOT):
            return True
        explained = any(one.unstable for one in self.sessions) and all(one.found for one in self.sessions)
        return explained and not any(one.failed for one in self.sessions)


def stages() -> list[Stage]:
    found = []
    for line in (RESULTS / "stages").read_text().splitlines():
        name, status, seconds, *names = line.split()
        found.append(Stage(name, int(status), int(seconds), [Session.read(one) for one in names]))
    return found


def show(title: str, text: str) -> None:
    print(f"\n=== {title}\n{text.rstrip()}")


def verdict() -> int:
    """Prints all of it; 0 if all is green."""
    ran = stages()
    sessions = [one for stage in ran for one in stage.sessions]
    for one in sessions:
        for test, text in one.failed.items():
            show(f"FAILED {one.name} {test}", text)
    for one in sessions:
        for test, text in one.unstable.items():
            show(f"UNSTABLE {one.name} {test}", f"{text}\n... alone, at load {os.getloadavg()[0]:.1f}, it passed")
    unstable = sum(len(one.unstable) for one in sessions)
    if unstable:
        print("\nWhat is unstable has a cause: find it, or say in tests/UNSTABLE.md what is known of it.")

    slowest = sorted(
        ((seconds, one.name, test) for one in sessions for test, seconds in one.seconds.items()), reverse=True
    )
    print("\n seconds  the tests that took longest")
    for seconds, name, test in slowest[:SLOWEST]:
        print(f"{seconds:>8.1f}  {name} {test}")

    print(f"\n{'stage':<12}{'':<12}{'passed':>8}{'failed':>8}{'unstable':>10}{'skipped':>9}{'minutes':>9}")
    for stage in ran:
        result = "not run" if stage.status == CANNOT else "green" if stage.green else "RED"
        print(f"{stage.name:<12}{result:<47}{stage.seconds / 60:>9.1f}")
        for one in stage.sessions:
            if one.found:
                print(
                    f"{'':<12}{one.name:<12}{one.passed:>8}{len(one.failed):>8}{len(one.unstable):>10}{one.skipped:>9}"
                )
            elif stage.status != CANNOT:
                print(f"{'':<12}{one.name:<12}{'no result':>8}")
    green = all(stage.green for stage in ran) and unstable <= MOST_UNSTABLE
    print(f"CI: {sum(one.passed for one in sessions)} passed, {sum(len(one.failed) for one in sessions)} failed")
    return 0 if green else 1


if __name__ == "__main__":
    sys.exit(failed(sys.argv[2]) if sys.argv[1:2] == ["failed"] else verdict())
