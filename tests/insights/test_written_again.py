"""Files that grow and are written from the start each time, and files that are not."""

from __future__ import annotations

import json

import pytest

from tests.support.findings import evidence_of, findings_of, none, only, without_times
from tests.support.programs import Runner

pytestmark = pytest.mark.once

#: SAVE writes all items, of which there is one more each time.
GROWING = """
import json, os, pickle, tempfile
items = []
for n in range(60):
    items.append("x" * 99)
    SAVE
"""
SAVES = {
    "text": 'open("state", "w").write("\\n".join(items))',
    "json": 'with open("state", "w") as f: json.dump(items, f)',
    "pickle": 'with open("state", "wb") as f: pickle.dump([n, "x" * 100 * n], f)',
    "renamed": 'open("state.tmp", "w").write("x" * 100 * len(items)); os.replace("state.tmp", "state")',
    "unique": """
    with tempfile.NamedTemporaryFile("w", dir=".", delete=False) as f: f.write("x" * 100 * len(items))
    os.replace(f.name, "state")
    """,
    "truncated": """
    with open("state", "a+") as f: f.truncate(0); f.write("x" * 100 * len(items))
    """,
}


@pytest.mark.parametrize("how", SAVES)
def test_a_growing_file_written_again(program: Runner, how: str) -> None:
    # GIVEN 60 versions of a file, each with 100 bytes more WHEN findings are made
    text = GROWING.replace("SAVE", SAVES[how].strip())
    outcome = program.traced(text)
    finding = only(findings_of(outcome), "written-again")
    # THEN it says what they had in all, and what the last one has
    size = (program.folder / "state").stat().st_size
    values = finding.evidence[0].values
    assert values["times"] == 60 and values["bytes"] == size and size > 5900
    assert 25 * size < int(values["written"]) < 35 * size
    assert finding.files == [f"{program.folder}/state"] and finding.sites[0].line in (6, 7)
    assert finding.recoverable.bound == "estimate" and finding.recoverable_ns > 0
    assert evidence_of(finding, outcome.log)
    assert finding.remedy is not None and finding.remedy.library == (how if how in ("json", "pickle") else "python")


#: What is read, changed and written back keeps its size.
CHANGED = {
    "json": """
    state = json.load(open("state")) if n else dict.fromkeys(map(str, range(10, 60)), "x" * 99)
    state[str(10 + n % 50)] = f"{n:099}"
    with open("state", "w") as f: json.dump(state, f)
    """,
    "bytes": """
    data = bytearray(open("state", "rb").read() if n else bytes(5000))
    data[n] = n
    open("state.tmp", "wb").write(data); os.replace("state.tmp", "state")
    """,
}


@pytest.mark.parametrize("how", CHANGED)
def test_a_file_that_is_changed_as_a_whole(program: Runner, how: str) -> None:
    # GIVEN a file that is read, changed and written back 60 times WHEN findings are made
    outcome = program.traced(GROWING.replace("SAVE", CHANGED[how].strip()))
    finding = only(findings_of(outcome), "written-again")
    # THEN it says so, and that it can stay in memory
    size, values = (program.folder / "state").stat().st_size, finding.evidence[0].values
    assert (values["times"], values["bytes"], values["written"]) == (60, size, 60 * size)
    assert finding.remedy is not None and "in memory" in finding.remedy.text


def test_parts_of_chunks(program: Runner) -> None:
    # GIVEN an array of zarr in chunks of 50 rows that is written row by row WHEN findings are made
    pytest.importorskip("zarr")
    text = """
    import numpy, zarr
    rows = numpy.random.default_rng(1).random((100, 3000))
    array = zarr.open(store="a.zarr", mode="w", shape=rows.shape, chunks=(50, 3000), dtype="f8")
    SAVE
    """
    by_row = text.replace("SAVE", "for n, row in enumerate(rows): array[n] = row")
    outcome = program.traced(by_row)
    found = findings_of(outcome)
    finding = only(found, "written-again")
    # THEN each of both chunks was written 50 times, and nobody is told to sync what zarr renames
    assert finding.evidence[0].values["times"] == 100 and finding.sites[0].line == 5
    assert none(found, "non-atomic-save") and none(found, "tiny-tasks")
    # WHEN the remedy is followed THEN there is nothing to say
    assert finding.remedy is not None and "whole chunks" in finding.remedy.text
    after = text.replace("SAVE", finding.remedy.after.replace("\n", "\n    "))
    assert none(findings_of(program.traced(after, log="after.pyio")), "written-again")


OTHERWISE = {
    "appended": 'with open("state", "a") as f: f.write(items[-1])',
    "same size": 'open("state", "w").write("x" * 5000)',
    "other names": 'open(f"state-{n}", "w").write("x" * 100 * n)',
    "kept open": 'f = globals().get("f") or open("state", "w"); f.write(items[-1])',
}


@pytest.mark.parametrize("how", OTHERWISE)
def test_what_is_not_written_again(program: Runner, how: str) -> None:
    # GIVEN what is appended, keeps its size or has names of its own WHEN findings are made THEN nothing is said
    assert none(findings_of(program.traced(GROWING.replace("SAVE", OTHERWISE[how]))), "written-again")


def test_a_remedy_of_json(program: Runner) -> None:
    # GIVEN the code before and after WHEN both run on the same items THEN the file says the same, from fewer bytes
    outcome = program.traced(GROWING.replace("SAVE", SAVES["json"]))
    remedy = only(findings_of(outcome), "written-again").remedy
    assert remedy is not None
    for code, name in ((remedy.before, "before"), (remedy.after, "after")):
        text = f"import json\npath, items, done = {name!r}, [[n, 'x'] for n in range(50)], []\n{code}"
        run = program.traced(text, name=f"{name}.py", log=f"{name}.pyio")
        assert run.status == 0
        moved = sum(row["bytes_moved"] for row in run.log.operations().to_pylist() if row["op"] == "write")
        assert (moved > 20 * 50 * 9) == (name == "before")
    lines = (program.folder / "after").read_text().splitlines()
    assert [json.loads(line) for line in lines] == json.loads((program.folder / "before").read_text())


def test_a_small_share(program: Runner) -> None:
    # GIVEN a file that grows slowly beside a program that waits WHEN findings are made THEN it is not worth a word
    text = "import time\ntime.sleep(1)" + GROWING.replace("range(60)", "range(6)").replace("SAVE", SAVES["text"])
    assert none(findings_of(program.traced(text), without_times({"written-again": {"share": 0.5}})), "written-again")
