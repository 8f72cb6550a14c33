"""polars: reads, scans and writes have their line and path, although polars' own threads do them."""

from __future__ import annotations

import json

import pytest

from tests.support.programs import Runner, alike, succeeded

pytest.importorskip("polars")

TEXT = """
import io, os, polars
frame = polars.DataFrame({"a": range(50_000), "b": [n / 7 for n in range(50_000)]})
frame.write_csv("t.csv")
frame.write_parquet("t.parquet", compression="lz4")
whole = polars.read_csv("t.csv")
part = polars.read_parquet("t.parquet", columns=["a"])
frame.filter(polars.col("a") > 3).lazy().collect()
some = polars.scan_parquet("t.parquet").filter(polars.col("a") < 10).collect()
frame.filter(polars.col("a") > 3)
frame.write_csv(buffer := io.BytesIO())
polars.read_csv(buffer.getvalue())
polars.read_csv(io.BytesIO(b"x\\n1\\n"))
try:
    polars.read_csv("missing.csv")
except Exception as problem:
    print(type(problem).__name__)
print(whole.shape, part.shape, some.shape, os.path.getsize("t.csv"), os.path.getsize("t.parquet"))
"""


def test_what_is_read_and_written(program: Runner) -> None:
    # GIVEN a program that reads and writes files, and memory
    outcome = alike(succeeded(program.traced(TEXT)), program.bare(TEXT))
    calls = outcome.select(layer="app", op=lambda op: "polars." in op or "Frame." in op)
    inner = {row["id"] for row in calls if any(other in outcome.parents(row) for other in calls if other is not row)}
    outer = [row for row in calls if row["id"] not in inner]
    found = [(row["op"], (row["path"] or "").rpartition("/")[2], int(row["site"].split(":")[1])) for row in outer]
    # THEN what concerns files has a row with path and line; what is in memory, and what only computes, has none
    assert found == [
        ("DataFrame.write_csv", "t.csv", 4), ("DataFrame.write_parquet", "t.parquet", 5),
        ("polars.read_csv", "t.csv", 6),
        ("polars.read_parquet", "t.parquet", 7), ("polars.scan_parquet", "t.parquet", 9), ("LazyFrame.collect", "", 9),
        ("polars.read_csv", "missing.csv", 15),
    ]  # fmt: skip
    details = [json.loads(row["detail"] or "{}") for row in outer]
    assert details[1] == {"rows": 50_000, "columns": 2, "compression": "lz4"}
    assert details[2] == {"rows": 50_000, "columns": 2}
    assert details[3] == {"names": ["a"], "rows": 50_000, "columns": 1}
    assert details[5] == {"rows": 10, "columns": 2}
    # AND the bytes of the file are beneath the call, in whichever thread they were read
    size = int(outcome.stdout.split()[-2])
    read = [row for row in outcome.rows if row["op_class"] == "read" and row["layer"] == "posix"]
    beneath = [row for row in read if outer[2] in outcome.parents(row)]
    assert size <= sum(row["bytes_moved"] for row in beneath) <= size + 64  # and its first bytes, to know its kind
