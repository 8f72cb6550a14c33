"""Rules about syncs, flushes, commits and closes."""

from __future__ import annotations

import pytest

from tests.support.findings import evidence_of, findings_of, none, only, without_times
from tests.support.programs import Runner

pytestmark = pytest.mark.once


def test_a_sync_per_record(program: Runner) -> None:
    outcome = program.traced(
        """
        import os
        with open("log.txt", "w") as f:
            for n in range(50):
                f.write("record\\n")
                f.flush()
                os.fsync(f.fileno())
        """
    )
    finding = only(findings_of(outcome), "sync-per-write")
    assert finding.evidence[0].values["syncs"] == 50 and finding.evidence[0].values["written"] == 350
    assert [site.line for site in finding.sites] == [7] and finding.files == [f"{program.folder}/log.txt"]
    assert [int(row["calls"]) for row in evidence_of(finding, outcome.log)] == [50]


def test_a_sync_per_checkpoint(program: Runner) -> None:
    outcome = program.traced(
        """
        import os
        for n in range(25):
            with open("c.bin", "wb") as f:
                f.write(bytes(1 << 17))
                f.flush()
                os.fsync(f.fileno())
        """
    )
    assert none(findings_of(outcome), "sync-per-write")


PHASES = """
import os
for phase in range(6):
    with open("phase.bin", "wb") as f:
        f.write(bytes(1 << 20))
        f.flush()
        SYNC
"""


def test_a_sync_of_a_file_in_each_phase(program: Runner) -> None:
    outcome = program.traced(PHASES.replace("SYNC", "os.fsync(f.fileno())"))
    found = findings_of(outcome)
    finding = only(found, "sync-again")
    values = finding.evidence[0].values
    assert (values["syncs"], values["files"], values["written"]) == (6, 1, 6 << 20)
    assert [site.line for site in finding.sites] == [7] and none(found, "sync-per-write")


def test_a_sync_after_the_last_phase(program: Runner) -> None:
    outcome = program.traced(PHASES.replace("SYNC", "phase == 5 and os.fsync(f.fileno())"))
    assert none(findings_of(outcome), "sync-again")


def test_a_flush_per_record(program: Runner) -> None:
    outcome = program.traced(
        """
        with open("log.txt", "w") as f:
            for n in range(1100):
                print("record", file=f, flush=True)
        """
    )
    finding = only(findings_of(outcome), "flush-per-record")
    assert finding.evidence[0].values["flushes"] == 1100 and finding.evidence[0].values["written"] == 7700
    assert [site.line for site in finding.sites] == [4]
    assert [int(row["calls"]) for row in evidence_of(finding, outcome.log)] == [1100]


@pytest.mark.parametrize("sync", ["fsync", "fdatasync"])
def test_flushes_that_syncs_need(program: Runner, sync: str) -> None:
    # GIVEN a file that is flushed so that a sync finds something to write
    outcome = program.traced(
        f"""
        import os
        with open("log.txt", "w") as f:
            for n in range(25):
                f.write("record")
                f.flush()
                os.{sync}(f.fileno())
        """
    )
    # WHEN 20 flushes are many THEN the syncs are told about, and nobody is advised to leave out the flushes
    found = findings_of(outcome, without_times({"flush-per-record": {"flushes": 20}}))
    assert none(found, "flush-per-record") and only(found, "sync-per-write")


def test_flushes_beside_a_few_syncs(program: Runner) -> None:
    outcome = program.traced(
        """
        import os
        with open("log.txt", "w") as f:
            for n in range(25):
                f.write("record")
                f.flush()
                if n % 10 == 0: os.fsync(f.fileno())
        """
    )
    assert only(findings_of(outcome, without_times({"flush-per-record": {"flushes": 20}})), "flush-per-record")


def test_no_flush(program: Runner) -> None:
    outcome = program.traced('with open("log.txt", "w") as f:\n    for n in range(1100): print("record", file=f)')
    assert none(findings_of(outcome), "flush-per-record")


DATABASE = """
import sqlite3
db = sqlite3.connect("t.db")
db.execute("CREATE TABLE t (x)")
for n in range(60):
    db.execute("INSERT INTO t VALUES (?)", (n,))
    EACH
db.commit()
"""


def test_a_commit_per_row(program: Runner) -> None:
    outcome = program.traced(DATABASE.replace("EACH", "db.commit()"))
    finding = only(findings_of(outcome), "commit-per-row")
    assert finding.evidence[0].values["commits"] == 61 and finding.files == [f"{program.folder}/t.db"]
    assert finding.sites[0].line == 7
    assert [int(row["calls"]) for row in evidence_of(finding, outcome.log)] == [61]


def test_one_commit(program: Runner) -> None:
    assert none(findings_of(program.traced(DATABASE.replace("EACH", "pass"))), "commit-per-row")


WRITES = """
import os
f = os.open("log.bin", os.O_WRONLY | os.O_CREAT | FLAGS)
for n in range(40): os.write(f, bytes(100))
"""


@pytest.mark.parametrize("flag", ["O_SYNC", "O_DSYNC"])
def test_writes_that_are_synchronous(program: Runner, flag: str) -> None:
    outcome = program.traced(WRITES.replace("FLAGS", f"os.{flag}"))
    finding = only(findings_of(outcome), "synchronous-writes")
    assert finding.evidence[0].values["writes"] == 40 and finding.evidence[0].values["bytes"] == 4000
    assert flag in finding.title and [site.line for site in finding.sites] == [4]
    assert [int(row["calls"]) for row in evidence_of(finding, outcome.log)] == [40]


def test_writes_that_are_not(program: Runner) -> None:
    assert none(findings_of(program.traced(WRITES.replace("FLAGS", "0"))), "synchronous-writes")


CLOSES = """
import os
for n in range(5):
    f = open("big.bin", "wb", buffering=0)
    f.write(bytes(SIZE))
    os.unlink("big.bin")
    f.close()
"""


def test_closes_that_take_long(program: Runner) -> None:
    # GIVEN closes that free the 32 MiB of a deleted file each
    outcome = program.traced(CLOSES.replace("SIZE", "32 << 20"))
    settings = without_times({"close-stall": {"ms": 0, "share": 0}})
    finding = only(findings_of(outcome, settings), "close-stall")
    assert finding.evidence[0].values["closes"] == 5 and [site.line for site in finding.sites] == [7]
    assert [int(row["calls"]) for row in evidence_of(finding, outcome.log)] == [5]


def test_closes_of_small_files(program: Runner) -> None:
    # WHEN a busy machine may interrupt each of them, but not for a second
    settings = without_times({"close-stall": {"ms": 1000, "share": 0}})
    assert none(findings_of(program.traced(CLOSES.replace("SIZE", "10")), settings), "close-stall")


SHELF = """
import dbm.dumb, shelve
with shelve.Shelf(dbm.dumb.open("shelf")) as shelf:
    for n in range(60):
        shelf[KEY] = n
        EACH
"""


def test_a_shelf_that_is_synced_for_each_key(program: Runner) -> None:
    outcome = program.traced(SHELF.replace("KEY", "str(n)").replace("EACH", "shelf.sync()"))
    finding = only(findings_of(outcome), "shelve-sync")
    opens = outcome.select(op="open", layer="posix", path=program.folder / "shelf.dir", errno=lambda error: not error)
    assert finding.evidence[0].values["opens"] == len(opens) >= 60
    assert finding.files == [f"{program.folder}/shelf.dir"] and {site.line for site in finding.sites} >= {5, 6}


def test_a_shelf_that_is_synced_once(program: Runner) -> None:
    outcome = program.traced(SHELF.replace("KEY", "'one'").replace("EACH", "pass"))
    assert none(findings_of(outcome), "shelve-sync")
