"""Files that are saved so that a crash loses the old content and the new one."""

from __future__ import annotations

import pytest

from pyio_trace.insights.finding import Finding
from tests.support.findings import evidence_of, findings_of, none, only
from tests.support.programs import Runner

pytestmark = pytest.mark.once
SLUG = "non-atomic-save"


def figures(finding: Finding) -> dict[str, object]:
    return dict(finding.evidence[0].values)


# ---- in place

IN_PLACE = """
import json
for n in range(4):
    with open("state.json", "w") as f:
        json.dump({"n": n, "text": "x" * SIZE}, f)
"""


@pytest.mark.parametrize("text, severity", [(10, "info"), (100_000, "warning")], ids=["small", "large"])
def test_a_file_that_is_saved_in_place(program: Runner, text: int, severity: str) -> None:
    # GIVEN a program that saves its state four times WHEN the findings are made
    outcome = program.traced(IN_PLACE.replace("SIZE", str(text)))
    finding = only(findings_of(outcome), SLUG)
    # THEN three of the saves emptied a file that had content
    saved = len('{"n": 0, "text": ""}') + text
    assert figures(finding) == {"times": 3, "files": 1, "bytes": 3 * saved}
    assert (finding.severity, finding.recoverable_ns, finding.recoverable.bound) == (severity, 0, "none")
    assert [site.line for site in finding.sites] == [4] and finding.files == [f"{program.folder}/state.json"]
    assert {row["op"]: int(row["calls"]) for row in evidence_of(finding, outcome.log)}["open"] == 8  # of both layers


def test_a_file_that_was_read_before(program: Runner) -> None:
    # GIVEN a file from before the run, which is read, changed and written
    (program.folder / "state.txt").write_text("0" * 1000)
    outcome = program.traced(
        """
        text = open("state.txt").read()
        with open("state.txt", "w") as f:
            f.write(text + "1")
        """
    )
    finding = only(findings_of(outcome), SLUG)
    assert figures(finding) == {"times": 1, "files": 1, "bytes": 1001} and finding.severity == "info"
    assert [site.line for site in finding.sites] == [3]


def test_a_file_that_is_truncated_and_written_again(program: Runner) -> None:
    outcome = program.traced(
        """
        with open("state.txt", "w+") as f:
            for n in range(4):
                f.seek(0)
                f.truncate()
                f.truncate()
                f.write("x" * 20)
                f.flush()
        """
    )
    finding = only(findings_of(outcome), SLUG)
    assert figures(finding) == {"times": 3, "files": 1, "bytes": 60} and [one.line for one in finding.sites] == [5]


def test_a_file_that_another_process_had_written(program: Runner) -> None:
    # GIVEN children that save to the file of their parent, one after another
    outcome = program.traced(
        """
        import os
        with open("state.txt", "w") as f: f.write("parent")
        for n in range(2):
            if not os.fork():
                with open("state.txt", "w") as f: f.write("child")
                os._exit(0)
            os.wait()
        with open("state.txt") as f: f.read()
        with open("state.txt", "w") as f: f.write("parent again")
        """
    )
    found = [one for one in findings_of(outcome) if one.slug == SLUG]
    # THEN the parent's last save is one of a file that was read; each child saved once
    assert [(one.sites[0].line, figures(one)["times"]) for one in found] == [(10, 1)]


def test_a_library_that_saves_in_place(program: Runner) -> None:
    pytest.importorskip("numpy")
    outcome = program.traced(
        """
        import numpy
        for n in range(5):
            numpy.save("weights.npy", numpy.zeros(20_000))
        """
    )
    finding = only(findings_of(outcome), SLUG)
    assert figures(finding) == {"times": 4, "files": 1, "bytes": 4 * 160_128} and finding.severity == "warning"
    assert [site.line for site in finding.sites] == [4]
    assert finding.remedy is not None and finding.remedy.library == "numpy" and "numpy.save" in finding.remedy.before


FINE = {
    "written once": 'open("a", "w").write("x")',
    "written twice, never read": 'for n in range(2):\n    with open("a", "w") as f: f.write("x")',
    "appended": 'for n in range(5):\n    with open("a", "a") as f: f.write("x")',
    "empty before": 'for n in range(5):\n    open("a", "w").close()\nwith open("a", "w") as f: f.write("x")',
    "emptied, and appended to later": """
for n in range(3):
    with open("a", "a") as f: f.write("x")
    open("a", "w").close()
""",
    "removed in the end": """
import os
for n in range(5):
    with open("a", "w") as f: f.write("x")
os.remove("a")
""",
    "renamed in the end": """
import os
for n in range(5):
    with open("a", "w") as f: f.write("x")
os.rename("a", "b")
""",
    "new files under one name": """
import os
for n in range(5):
    with open("a", "w") as f: f.write("x")
    os.remove("a")
with open("a", "w") as f: f.write("x")
""",
    "a lock": 'import os\nfor n in range(5):\n    with open("a.lock", "w") as f: f.write(str(os.getpid()))',
    "rotating logs": """
import logging.handlers
log = logging.getLogger()
log.addHandler(logging.handlers.RotatingFileHandler("a.log", maxBytes=500, backupCount=2))
for n in range(100): log.warning("step %d", n)
""",
    "a database": """
import sqlite3
db = sqlite3.connect("a.db")
db.execute("PRAGMA journal_mode=TRUNCATE")
db.execute("CREATE TABLE t (x)")
for n in range(5):
    with db: db.execute("INSERT INTO t VALUES (?)", (n,))
""",
    "a shelf": """
import dbm.dumb, shelve
with shelve.Shelf(dbm.dumb.open("shelf")) as shelf:
    for n in range(5):
        shelf[str(n)] = n
        shelf.sync()
""",
    "shared memory": """
import os
for n in range(5):
    with open("/dev/shm/pyio-trace-test-" + str(os.getpid()), "w") as f: f.write("x")
os.remove(f.name)
""",
}


@pytest.mark.parametrize("name", FINE)
def test_what_loses_nothing(program: Runner, name: str) -> None:
    assert none(findings_of(program.traced(FINE[name])), SLUG)


def test_sums_say_nothing_of_the_order(program: Runner) -> None:
    outcome = program.traced(IN_PLACE.replace("SIZE", "10"), env={"PYIO_TRACE_MODE": "profile"})
    assert none(findings_of(outcome), SLUG)


# ---- by a rename

BY_RENAME = """
import os
for n in range(4):
    BEFORE
    f = os.open("new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | FLAGS)
    os.write(f, bytes(100_000))
    SYNC
    os.write(f, bytes(50))
    LAST
    os.close(f)
    AFTER
    os.replace("new", "state")
"""


def by_rename(**parts: str) -> str:
    text = BY_RENAME
    for word in ("BEFORE", "SYNC", "LAST", "AFTER", "FLAGS"):
        text = text.replace(word, parts.get(word.lower(), "0" if word == "FLAGS" else "pass"))
    return text


@pytest.mark.parametrize("sync", ["pass", "os.fsync(f)"], ids=["no sync", "a sync before the last write"])
def test_a_new_file_that_is_renamed_without_a_sync(program: Runner, sync: str) -> None:
    outcome = program.traced(by_rename(sync=sync))
    finding = only(findings_of(outcome), SLUG)
    assert figures(finding) == {"times": 3, "files": 1, "bytes": 3 * 100_050} and finding.severity == "warning"
    assert [site.line for site in finding.sites] == [12] and finding.files == [f"{program.folder}/state"]
    assert {row["op"]: int(row["calls"]) for row in evidence_of(finding, outcome.log)} == {"rename": 4}


RENAMED_WELL = {
    "fsync": {"last": "os.fsync(f)"},
    "fdatasync": {"last": "os.fdatasync(f)"},
    "sync of everything": {"after": "os.sync()"},
    "sync by another descriptor": {"after": 'g = os.open("new", os.O_RDONLY); os.fsync(g); os.close(g)'},
    "writes that are syncs": {"flags": "os.O_DSYNC"},
    "nothing there": {"before": 'os.path.exists("state") and os.remove("state")'},
    "a name for each": {"after": 'os.path.exists("state") and os.rename("state", f"old{n}")'},
}


@pytest.mark.parametrize("how", RENAMED_WELL)
def test_a_new_file_that_is_renamed_well(program: Runner, how: str) -> None:
    assert none(findings_of(program.traced(by_rename(**RENAMED_WELL[how]))), SLUG)


def test_syncs_that_have_no_rows(program: Runner) -> None:
    # GIVEN saves that are synced WHEN syncs are left out of the log THEN nothing is said of what is not known
    outcome = program.traced(by_rename(last="os.fsync(f)"), env={"PYIO_TRACE_EXCLUDE": "op:fsync"})
    assert not outcome.select(op="fsync") and none(findings_of(outcome), SLUG)
