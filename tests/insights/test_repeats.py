"""Rules about what is done again: bytes read again, paths asked for at an interval."""

from __future__ import annotations

import pytest

from tests.support.findings import evidence_of, findings_of, none, only
from tests.support.programs import Runner

pytestmark = pytest.mark.once

POLLING = """
import os, time
for n in range(30):
    os.path.exists("done")
    time.sleep(0.1)
for n in range(30):
    os.path.exists(f"done{n}")
"""


def test_polling(program: Runner) -> None:
    # GIVEN a path that is asked for every 100 ms or a little more, and others that are asked for once: a busy machine
    # would have to keep a quarter of the sleeps, that is seven, for 20 ms longer than others to make them unsteady
    outcome = program.traced(POLLING)
    finding = only(findings_of(outcome), "polling")
    values = finding.evidence[0].values
    assert values["calls"] == values["missing"] == 30 and values["interval_ns"] >= 90_000_000
    assert finding.files == [f"{program.folder}/done"] and [site.line for site in finding.sites] == [4]
    assert len(evidence_of(finding, outcome.log)) == 30


def test_no_polling(program: Runner) -> None:
    # GIVEN a path that is asked for as often, at once
    assert none(findings_of(program.traced(POLLING.replace("time.sleep(0.1)", "pass"))), "polling")


AGAIN = """
import os
with open("data.bin", "wb") as f: f.write(bytes(1 << 20))
def read():
    with open("data.bin", "rb") as f: return f.read()
READ
"""


def test_a_file_read_again(program: Runner) -> None:
    outcome = program.traced(AGAIN.replace("READ", "for n in range(5): read()"))
    finding = only(findings_of(outcome), "read-again")
    values = finding.evidence[0].values
    assert (values["bytes"], values["distinct"], values["again"]) == (5 << 20, 1 << 20, 4 << 20)
    assert finding.files == [f"{program.folder}/data.bin"] and finding.sites[0].line == 5
    assert sum(int(row["bytes"]) for row in evidence_of(finding, outcome.log)) == 5 << 20
    assert "keep" in finding.remedy.text


def test_a_table_read_again(program: Runner) -> None:
    # GIVEN a table that is read and decoded ten times
    pytest.importorskip("pyarrow", reason="its tables are what is read")
    outcome = program.traced("""
        import pyarrow as pa, pyarrow.parquet as pq
        words = [f"word {n % 999}" for n in range(300_000)]
        pq.write_table(pa.table({"word": words, "n": range(300_000)}), "t.parquet")
        for n in range(10): pq.read_table("t.parquet")
    """)
    finding = only(findings_of(outcome), "read-again")
    calls = outcome.select(op="pyarrow.parquet.read_table", layer="app")
    whole = sum(row["duration"] for row in calls)
    assert finding.evidence[1].values == {"calls": 10, "time_ns": whole}
    # THEN it costs nine of the ten calls, decoding included, and not only what they spent in reads
    assert 0.85 * whole < finding.recoverable_ns < 0.95 * whole
    assert len(evidence_of(finding, outcome.log)) and "once" in finding.remedy.after


def test_a_file_read_by_each_process(program: Runner) -> None:
    forks = "for n in range(4):\n    if not os.fork(): read(); os._exit(0)\nfor n in range(4): os.wait()"
    outcome = program.traced(AGAIN.replace("READ", forks))
    finding = only(findings_of(outcome), "read-again")
    assert finding.evidence[0].values["other_process"] == 3 << 20 and "process" in finding.remedy.text


def test_a_file_read_once(program: Runner) -> None:
    assert none(findings_of(program.traced(AGAIN.replace("READ", "read()"))), "read-again")
