"""The file of I/O fingerprints: what each test did to each file, in counts and bytes.

It is JSON with one line for each file of a test, sorted, so that a change of a
test's I/O is a readable diff.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from pyio_trace.errors import ConfigError

FORMAT = 1
#: What is compared for each file.
COUNTS = ("opens", "reads", "writes", "bytes_read", "bytes_written")

#: File -> counts by name, without zeros.
Fingerprint = Mapping[str, Mapping[str, int]]


def load(path: Path) -> dict[str, Fingerprint]:
    """Fingerprints by test; empty if there is no file.  Raises ConfigError."""
    try:
        if path.exists() and not path.is_file():  # a FIFO would block
            raise ConfigError("bad-value", f"{path} is not a file; remove it and run --io-record")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError("bad-value", f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        text = ""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or content.get("format") != FORMAT or not _sound(content.get("tests")):
        raise ConfigError("bad-value", f"{path} is not a file of I/O fingerprints; remove it and run --io-record")
    tests: dict[str, Fingerprint] = content["tests"]
    return tests


def save(path: Path, tests: Mapping[str, Fingerprint]) -> None:
    """Replaces the file.  Tests without I/O are left out.  Raises OSError."""
    lines = ["{", f' "format": {FORMAT},', ' "tests": {']
    named = sorted((test, files) for test, files in tests.items() if files)
    for test, files in named:
        inner = [f"   {json.dumps(name)}: {json.dumps(dict(files[name]))}" for name in sorted(files)]
        lines += [f"  {json.dumps(test)}: {{", ",\n".join(inner), "  }" + ("," if test != named[-1][0] else "")]
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text("\n".join([*lines, " }", "}"]) + "\n", encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def merged(
    recorded: Mapping[str, Fingerprint], measured: Mapping[str, Fingerprint], root: Path
) -> dict[str, Fingerprint]:
    """What to record: measured ones, and the earlier ones of other tests whose file is still there."""
    kept = {test: files for test, files in recorded.items() if (root / test.partition("::")[0]).exists()}
    return kept | dict(measured)


def changes(recorded: Fingerprint, measured: Fingerprint) -> list[str]:
    """One line for each file whose counts differ; empty: there is none."""
    lines = []
    for name in sorted(recorded.keys() | measured.keys()):
        before, now = recorded.get(name, {}), measured.get(name, {})
        differing = [count for count in COUNTS if before.get(count, 0) != now.get(count, 0)]
        if differing:
            what = ", ".join(f"{count} {before.get(count, 0):,} -> {now.get(count, 0):,}" for count in differing)
            lines.append(f"{name}: {what}")
    return lines


def _sound(tests: object) -> bool:
    return isinstance(tests, dict) and all(
        isinstance(files, dict)
        and all(
            isinstance(counts, dict) and all(name in COUNTS and type(count) is int for name, count in counts.items())
            for counts in files.values()
        )
        for files in tests.values()
    )
