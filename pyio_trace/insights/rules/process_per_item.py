"""A line starts a short program for each item, such as `wc` for each file.

Each start costs time, twice as much if a shell starts the program, and the caller
waits. Only the starts are counted, because the program's own work has to be done in
any case. Hand all items to one process, or do the work in Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyio_trace.insights import sql
from pyio_trace.insights.finding import Confidence, Evidence, Finding, Query, Remedy
from pyio_trace.insights.observed import covered, site_of
from pyio_trace.insights.rule import Limit, Rule
from pyio_trace.units import number, seconds

if TYPE_CHECKING:
    from pyio_trace.insights.observed import Observed


def find(run: Observed, limits: Mapping[str, float]) -> Iterator[Finding]:
    started: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in run.processes:
        if row["site"] and row["end"] is not None and not row["version"]:  # interpreters: many-interpreters
            started.setdefault((row["site"], row["process_name"] or "process"), []).append(row)
    for (line, name), rows in started.items():
        count = len(rows)
        time = covered([row["begin"] for row in rows], [row["end"] for row in rows])
        if count < limits["processes"] or time > limits["ms"] * 1e6 * count:
            continue
        start = min(*(row["end"] - row["begin"] for row in rows), int(limits["start_ms"] * 1e6))
        saved = min(start * (count - 1), time * (count - 1) // count)
        gain = run.gain({run.starter(rows[0]): max(saved, 0)}, f"{seconds(max(start, 0))} to start each but one")
        if gain.ns < limits["share"] * run.wall_ns:
            continue
        site = site_of(line)
        yield Finding(
            title=f"{number(count)} processes of {name} are started by one line",
            recoverable_ns=gain.ns,
            recoverable=gain.recoverable,
            evidence=[
                Evidence(
                    f"They lived for {seconds(time)}, {seconds(time // count)} each; those that lived at once are "
                    "counted once.",
                    {"processes": count, "time_ns": time},
                )
            ],
            remedy=Remedy(
                "Hand all items to one process, or do the work in Python.",
                "for path in paths:\n    subprocess.run(['gzip', path], check=True)",
                "subprocess.run(['gzip', *paths], check=True)",
            ),
            sites=[site] if site is not None else [],
            processes=[row["index"] for row in rows[:10]],
            persistence=run.persistence(min(row["begin"] for row in rows), max(row["end"] for row in rows)),
            confidence=Confidence(0.7, "when each began and ended is in the log; what it did is not"),
            severity="warning",
            query=Query(
                f'SELECT pid, argv, ("end" - "begin") / 1e9 AS seconds\nFROM processes\n'
                f"WHERE {sql.condition('site', line)}\n  AND {sql.condition('process_name', name)}"
            ),
        )


RULE = Rule(
    "start-up",
    find,
    limits={
        "processes": Limit(20, "started by one line, at least", few=5),
        "ms": Limit(50, "that one of them lives on average, at most; longer ones do work"),
        "start_ms": Limit(3, "that starting one takes, at most; less where one of them lived for less"),
        "share": Limit(0.02, "of the wall time that starting them takes, at least"),
    },
)
