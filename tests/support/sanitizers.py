"""Which tests are skipped under the address sanitizer: the table tests/sanitizers.toml, with a reason for each."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

TABLE = Path(__file__).parents[1] / "sanitizers.toml"


@dataclass(frozen=True)
class Skipped:
    """One entry of the table."""

    reason: str
    tests: list[str]
    parameters: str = ""

    def covers(self, nodeid: str) -> bool:
        """Whether the entry is about the test with this pytest node id."""
        name, _, parameters = nodeid.partition("[")
        if not any(fnmatchcase(name, test) for test in self.tests):
            return False
        return not self.parameters or self.parameters in parameters.rstrip("]").split("-")


def entries() -> list[Skipped]:
    """The table."""
    return [Skipped(**entry) for entry in tomllib.loads(TABLE.read_text())["skipped"]]


def reason(nodeid: str) -> str | None:
    """Why a test cannot run under the sanitizer; None: it can."""
    return next((entry.reason for entry in entries() if entry.covers(nodeid)), None)
