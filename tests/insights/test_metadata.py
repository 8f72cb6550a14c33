"""Rules about metadata: each on a program that has the problem, and on one that does the same work without it."""

from __future__ import annotations

import pytest

from tests.support.findings import evidence_of, findings_of, none, only, without_times
from tests.support.programs import Runner

pytestmark = pytest.mark.once

#: A folder with N empty files, with what every program needs; the tests' own lines begin after it.
FILES = """
import os, sys
os.mkdir("d")
for n in range(N):
    os.close(os.open(f"d/{n}.txt", os.O_CREAT | os.O_WRONLY))
"""


def files(count: int) -> str:
    return FILES.replace("N)", f"{count})")


def test_a_stat_storm(program: Runner) -> None:
    # GIVEN 400 files that are asked about three times each, on two lines
    outcome = program.traced(
        files(400)
        + """
for n in range(400):
    p = f"d/{n}.txt"
    if os.path.exists(p) and os.path.isfile(p):
        os.path.getsize(p)
"""
    )
    # WHEN findings are made
    finding = only(findings_of(outcome), "stat-storm")
    # THEN its figures, lines, files and evidence are the program's
    assert finding.evidence[0].values["calls"] == 1200 and finding.evidence[0].values["paths"] == 400
    assert sorted(site.line for site in finding.sites) == [9, 10]
    assert finding.files == [f"{program.folder}/d/*.txt"] and finding.processes == [0]
    assert sum(int(row["calls"]) for row in evidence_of(finding, outcome.log)) == 1200


def test_no_stat_storm(program: Runner) -> None:
    outcome = program.traced(files(1200) + 'for n in range(1200): os.path.getsize(f"d/{n}.txt")')
    assert none(findings_of(outcome), "stat-storm")


def test_a_folder_listed_again(program: Runner) -> None:
    outcome = program.traced(
        files(20)
        + """
for n in range(150):
    f"{n}.txt" in os.listdir("d")
"""
    )
    finding = only(findings_of(outcome), "list-again")
    assert finding.evidence[0].values["listings"] == 150 and finding.evidence[0].values["folders"] == 1
    assert [site.line for site in finding.sites] == [8] and finding.files == [f"{program.folder}/d"]
    counts = {row["op"]: int(row["calls"]) for row in evidence_of(finding, outcome.log)}
    assert counts["opendir"] == counts["closedir"] == 150


def test_a_folder_listed_once(program: Runner) -> None:
    outcome = program.traced(files(20) + 'names = set(os.listdir("d"))\nfor n in range(150): f"{n}.txt" in names')
    assert none(findings_of(outcome), "list-again")


def test_a_file_opened_for_each_item(program: Runner) -> None:
    outcome = program.traced(
        """
        for n in range(300):
            with open("items.txt", "a") as f:
                f.write(f"{n}\\n")
        """
    )
    finding = only(findings_of(outcome), "reopen-per-item")
    assert finding.evidence[0].values["opens"] == 300 and finding.evidence[0].values["files"] == 1
    assert [site.line for site in finding.sites] == [3] and finding.files == [f"{program.folder}/items.txt"]
    assert {row["op"]: int(row["calls"]) for row in evidence_of(finding, outcome.log)}["open"] == 300


def test_a_file_opened_once(program: Runner) -> None:
    outcome = program.traced('with open("items.txt", "a") as f:\n    for n in range(300): f.write(f"{n}\\n")')
    assert none(findings_of(outcome), "reopen-per-item")


SMALL = """
import os
os.mkdir("d")
for n in range(COUNT):
    with open(f"d/{n}.bin", "wb") as f:
        f.write(bytes(SIZE))
"""


def test_a_small_file_for_each_item(program: Runner) -> None:
    outcome = program.traced(SMALL.replace("COUNT", "1000").replace("SIZE", "100"))
    finding = only(findings_of(outcome), "small-files")
    assert finding.evidence[0].values["files"] == 1000 and finding.evidence[0].values["bytes"] == 100_000
    assert [site.line for site in finding.sites] == [5] and finding.files == [f"{program.folder}/d/*.bin"]


def test_nothing_but_metadata(program: Runner) -> None:
    # GIVEN metadata calls that no other rule is about: 3200 beside 40 opens and closes, and a mkdir
    outcome = program.traced(files(40) + "for n in range(3200): os.chmod(f'd/{n % 40}.txt', 0o600)\n")
    finding = only(findings_of(outcome), "metadata-share")
    assert finding.evidence[0].values["calls"] == 3281 and finding.evidence[0].values["paths"] == 41
    assert sum(int(row["calls"]) for row in evidence_of(finding, outcome.log)) == 3281


def test_metadata_that_has_another_name(program: Runner) -> None:
    # GIVEN nothing but small files WHEN findings are made THEN they are not counted a second time
    found = findings_of(program.traced(files(1600)))
    assert only(found, "small-files") and none(found, "metadata-share")


def test_few_files(program: Runner) -> None:
    found = findings_of(program.traced(SMALL.replace("COUNT", "100").replace("SIZE", "10_000")))
    assert none(found, "small-files") and none(found, "metadata-share")


def test_many_large_files(program: Runner) -> None:
    found = findings_of(program.traced(SMALL.replace("COUNT", "1000").replace("SIZE", "140_000")))
    assert none(found, "small-files")


def test_files_that_do_not_last(program: Runner) -> None:
    outcome = program.traced(
        """
        import os
        for n in range(120):
            with open(f"part{n}.tmp", "wb") as f:
                f.write(b"x" * 1000)
            os.remove(f"part{n}.tmp")
        """
    )
    finding = only(findings_of(outcome), "create-and-delete")
    assert finding.evidence[0].values["files"] == 120 and [site.line for site in finding.sites] == [6, 4]
    assert [int(row["calls"]) for row in evidence_of(finding, outcome.log)] == [120]


def test_files_that_stay(program: Runner) -> None:
    outcome = program.traced(
        """
        import os
        for n in range(120):
            with open("part.tmp", "wb") as f:
                f.write(b"x" * 1000)
        os.remove("part.tmp")
        """
    )
    assert none(findings_of(outcome), "create-and-delete")


def test_asking_before_opening(program: Runner) -> None:
    outcome = program.traced(
        files(600)
        + """
for n in range(600):
    if os.path.exists(f"d/{n}.txt"):
        open(f"d/{n}.txt").close()
"""
    )
    found = findings_of(outcome)
    finding = only(found, "ask-before-open")
    assert finding.evidence[0].values["files"] == 600 and [site.line for site in finding.sites] == [8]
    assert [int(row["calls"]) for row in evidence_of(finding, outcome.log)] == [600]
    assert none(found, "stat-storm")


def test_opening_without_asking(program: Runner) -> None:
    outcome = program.traced(files(600) + 'for n in range(600): open(f"d/{n}.txt").close()')
    assert none(findings_of(outcome), "ask-before-open")


def test_paths_that_are_not_there(program: Runner) -> None:
    outcome = program.traced(
        files(1)
        + """
for n in range(300):
    for folder in ("a", "b", "d"):
        os.path.exists(f"{folder}/0.txt")
"""
    )
    finding = only(findings_of(outcome), "missing-paths")
    assert finding.evidence[0].values["calls"] == 600 and finding.evidence[0].values["paths"] == 2
    assert [site.line for site in finding.sites] == [9]
    assert [int(row["calls"]) for row in evidence_of(finding, outcome.log)] == [600]


def test_paths_that_are_looked_for_once(program: Runner) -> None:
    # GIVEN results that are not there yet, of which each is looked for once, or twice
    text = "import os\nfor n in range(2 * COUNT): os.path.exists(f'result{n % COUNT}')"
    found = findings_of(program.traced(text.replace("2 * COUNT", "600").replace("COUNT", "600")))
    again = findings_of(program.traced(text.replace("COUNT", "300"), log="again.pyio"))
    # THEN only in the latter it is certain that calls could go
    assert only(found, "missing-paths").recoverable.bound == "upper"
    assert only(again, "missing-paths").recoverable.bound == "estimate"


def test_paths_that_come_later(program: Runner) -> None:
    # GIVEN a loop that asks for 20 files until they are there WHEN findings are made
    text = """
    import os
    for k in range(30):
        for n in range(20): os.path.exists(f"{n}.done")
        if k == 28:
            for n in range(20): open(f"{n}.done", "w").close()
    """
    finding = only(findings_of(program.traced(text)), "missing-paths")
    # THEN the remedy is to be told, and not to look them up
    assert finding.evidence[0].values["calls"] == 580 and finding.title.endswith("not there yet")
    assert finding.remedy is not None and "message" in finding.remedy.text


def test_paths_that_are_there(program: Runner) -> None:
    outcome = program.traced(files(1) + 'for n in range(900): os.path.exists("d/0.txt")')
    assert none(findings_of(outcome), "missing-paths")


LOCK = """
import fcntl, os, time
with open("lock", "w") as f:
    if HELD:
        ready, done = os.pipe()
        child = os.fork()
        if not child:
            with open("lock", "w") as other:
                fcntl.flock(other, fcntl.LOCK_EX)
                os.write(done, b"x")
                # the kernel says what the parent sleeps in
                while "lock" not in open(f"/proc/{os.getppid()}/wchan").read(): time.sleep(0.01)
                time.sleep(0.3)
            os._exit(0)
        os.read(ready, 1)
    fcntl.flock(f, fcntl.LOCK_EX)
"""


def test_waiting_for_a_lock(program: Runner) -> None:
    # GIVEN a child that keeps a lock for 0.3 s after its parent began to wait THEN the finding has the wait, its line
    outcome = program.traced(LOCK.replace("HELD", "True"))
    finding = only(findings_of(outcome), "lock-waits")
    assert [site.line for site in finding.sites] == [16] and finding.files == [f"{program.folder}/lock"]
    assert finding.evidence[0].values["calls"] == 1
    assert [int(row["calls"]) for row in evidence_of(finding, outcome.log)] == [1]


def test_a_free_lock(program: Runner) -> None:
    # WHEN a busy machine may keep any call from a processor for a while, but not for ten seconds
    settings = without_times({"lock-waits": {"ms": 10_000}})
    assert none(findings_of(program.traced(LOCK.replace("HELD", "False")), settings), "lock-waits")


def test_no_folder_is_no_listing(program: Runner) -> None:
    # GIVEN a path that is no folder, and is asked to be listed all the same THEN nothing could be kept
    outcome = program.traced("""
import os
open("file", "w").close()
for n in range(200):
    try: os.listdir("file" if n % 2 else "missing")
    except OSError: pass
""")
    assert outcome.status == 0 and none(findings_of(outcome), "list-again")
