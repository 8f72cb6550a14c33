"""The other side of reader.py: sums of a log's operations by phase of a test, file and line."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from pyio_trace.errors import PyioTraceError
from pyio_trace.globs import path_matcher
from pyio_trace_plugins.pytest.names import Names
from pyio_trace_plugins.pytest.phases import CALL, Phase, Sums, sums_of

if TYPE_CHECKING:
    from pyio_trace.join.sources.facade import Log


def main() -> None:
    """Answers until standard input ends."""
    for line in sys.stdin:
        try:
            result: dict[str, Any] = {"result": answer(json.loads(line))}
        except PyioTraceError as error:
            result = {"error": error.args[0]}
        except Exception as error:
            result = {"error": f"the log cannot be summed: {type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(result) + "\n")
        sys.stdout.flush()


def answer(request: dict[str, Any]) -> Any:
    """Sums of the log at request["log"] over request["phases"].

    shared: whether other processes than the tests' and its children write to
    the log.  left_out: by test, paths to leave out.  If request["names"] is
    there, the answer has totals and fingerprints by test, else sums by file and
    line: [path, site, *phases.Counts].
    """
    from pyio_trace.join.sources.opening import open_log

    log = open_log(request["log"])
    phases = [Phase(*one) for one in request["phases"]]
    left_out = {int(test): set(paths) for test, paths in request["left_out"].items()}
    sums = [one for one in sums_of(log, phases, request["shared"]) if one.path not in left_out.get(one.test, ())]
    if "names" not in request:
        return [(one.path, one.site, *one.counts) for one in sums]
    names = Names(request["names"], map(path_matcher, request["ignored"]))
    return {
        "totals": _totals(sums),
        "fingerprints": _fingerprints(sums, names, set(request["passed"]), request["tmp_paths"]),
        "note": _note(log),
    }


def _totals(sums: list[Sums]) -> dict[int, tuple[int, ...]]:
    totals: dict[int, tuple[int, ...]] = {}
    for one in sums:
        before = totals.get(one.test)
        totals[one.test] = one.counts if before is None else _added(before, one.counts)
    return totals


def _fingerprints(
    sums: list[Sums], names: Names, tests: set[int], tmp_paths: dict[str, str]
) -> dict[int, dict[str, tuple[int, ...]]]:
    """By test and name of a file: opens, reads, writes, bytes read, bytes written, of the calls of tests."""
    result: dict[int, dict[str, tuple[int, ...]]] = {test: {} for test in tests}
    for one in sums:
        counts = one.counts
        wanted = (counts.opens, counts.reads, counts.writes, counts.bytes_read, counts.bytes_written)
        if one.phase != CALL or one.test not in tests or not any(wanted):
            continue
        name = names.of(one.path, tmp_paths.get(str(one.test)))
        if name is not None:
            files = result[one.test]
            files[name] = _added(files[name], wanted) if name in files else wanted
    return result


def _added(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _note(log: Log) -> str:
    """What the log lacks, in one line; empty: nothing."""
    losses = log.losses()
    lost = losses.get("operations_counted_only", 0)
    if not lost:
        return ""
    return f"{lost:,} operations did not fit into the log and are not counted: raise PYIO_TRACE_MAX_LOG_SIZE"
