"""Rules about numpy, pandas, pyarrow, json and Dask, on programs that use them."""

from __future__ import annotations

import pytest

from tests.support.findings import findings_of, none, only, without_times
from tests.support.programs import Runner

pytestmark = pytest.mark.once


def test_a_whole_array_for_a_row(program: Runner) -> None:
    text = """
        import numpy as np
        np.save("a.npy", np.zeros((1000, 100)))
        for n in range(20):
            np.load("a.npy", OPTIONS)[n]
    """
    finding = only(findings_of(program.traced(text.replace("OPTIONS", ""))), "whole-file-again")
    assert finding.evidence[0].values["loads"] == 20 and finding.evidence[0].values["files"] == 1
    assert int(finding.evidence[0].values["read"]) >= 20 * 800_000
    assert [site.line for site in finding.sites] == [5] and finding.files == [f"{program.folder}/a.npy"]
    assert finding.remedy is not None and "mmap_mode='r'" in finding.remedy.after
    mapped = program.traced(text.replace("OPTIONS", "mmap_mode='r'"), log="mapped.pyio")
    assert none(findings_of(mapped), "whole-file-again")


def test_a_text_file_that_is_loaded_again(program: Runner) -> None:
    # GIVEN text, which cannot be mapped as numbers
    text = """
        import numpy as np
        np.savetxt("a.txt", np.zeros((1000, 50)))
        for n in range(3): np.loadtxt("a.txt")[n]
    """
    finding = only(findings_of(program.traced(text)), "whole-file-again")
    # THEN the remedy reads it as text
    assert finding.remedy is not None and "memmap" not in finding.remedy.after
    assert "np.loadtxt(path)    # once" in finding.remedy.after and "np.save()" in finding.remedy.text


def test_arrays_that_are_loaded_once_each(program: Runner) -> None:
    outcome = program.traced(
        """
        import numpy as np
        for n in range(20):
            np.save(f"{n}.npy", np.zeros((1000, 100)))
        for n in range(20):
            np.load(f"{n}.npy")
        """
    )
    assert none(findings_of(outcome), "whole-file-again")


@pytest.mark.slow
def test_parsing_csv(program: Runner) -> None:
    pytest.importorskip("pandas")
    text = """
        import numpy as np, pandas as pd
        frame = pd.DataFrame({f"c{n}": np.random.default_rng(n).random(120_000) for n in range(16)})
        frame.to_csv("t.csv", index=False)
        pd.read_csv("t.csv")
    """
    found = findings_of(program.traced(text))
    parsing, formatting = only(found, "parse-bound"), only(found, "format-bound")
    assert [site.line for site in parsing.sites] == [5] and [site.line for site in formatting.sites] == [4]
    assert "All 16 columns" in parsing.evidence[0].text
    assert formatting.evidence[0].values["written"] == (program.folder / "t.csv").stat().st_size
    binary = text.replace('csv("t.csv", index=False)', "parquet('t')").replace('csv("t.csv")', "parquet('t')")
    parquet = program.traced(binary, log="p.pyio")
    found = findings_of(parquet)
    assert none(found, "parse-bound") and none(found, "format-bound")


def test_parsing_json(program: Runner) -> None:
    text = """
        import json
        with open("t.json", "w") as f:
            f.write(json.dumps([{"a": n, "b": str(n)} for n in range(COUNT)]))
        with open("t.json") as f:
            json.load(f)
    """
    outcome = program.traced(text.replace("COUNT", "40_000"))
    finding = only(findings_of(outcome), "parse-bound")
    assert [site.line for site in finding.sites] == [6] and "json.load" in finding.title
    # AND not below the threshold, or if the text is read and not parsed
    least = {"ms": int(finding.evidence[0].values["library_ns"]) / 1e6 + 0.001}
    assert none(findings_of(outcome, without_times({"parse-bound": least})), "parse-bound")
    read = program.traced(text.replace("json.load(f)", "f.read()").replace("COUNT", "40_000"), log="read.pyio")
    assert none(findings_of(read), "parse-bound")


def test_unpacking_an_archive(program: Runner) -> None:
    text = """
        import numpy as np
        np.SAVE("a.npz", x=np.tile(np.arange(1000.0), 20_000))
        for n in range(2):
            np.load("a.npz")["x"]
    """
    finding = only(findings_of(program.traced(text.replace("SAVE", "savez_compressed"))), "decompression-bound")
    assert finding.evidence[0].values["asked"] == 2 * 160_000_000 and [site.line for site in finding.sites] == [5]
    plain = program.traced(text.replace("SAVE", "savez"), log="plain.pyio")
    assert none(findings_of(plain), "decompression-bound")


TASKS = """
import dask, pandas as pd, numpy as np
import pyarrow.parquet as pq
pd.DataFrame({"a": np.arange(100_000.0)}).to_parquet("p.parquet")

def load(path):
    return pq.read_table(path).to_pandas()

def load_and_sum(path, n):
    return float(load(path)["a"].sum()) + n

def total(frame, n):
    return float(frame["a"].sum()) + n

if __name__ == "__main__":
    LAST
"""


def test_tasks_that_read_the_same_file(program: Runner) -> None:
    pytest.importorskip("dask")
    pytest.importorskip("pandas")
    each = "dask.compute(*[dask.delayed(load_and_sum)('p.parquet', n) for n in range(6)], scheduler='threads')"
    finding = only(findings_of(program.traced(TASKS.replace("LAST", each))), "tasks-read-again")
    values = finding.evidence[0].values
    assert (values["tasks"], values["files"], values["reads"]) == (6, 1, 6)
    assert [site.line for site in finding.sites] == [7] and "load_and_sum" in finding.evidence[0].text
    once = (
        "frame = dask.delayed(load)('p.parquet')\n    dask.compute(*[dask.delayed(total)(frame, n) for n in range(6)])"
    )
    assert none(findings_of(program.traced(TASKS.replace("LAST", once), log="once.pyio")), "tasks-read-again")


def test_small_row_groups(program: Runner) -> None:
    pytest.importorskip("pyarrow.parquet")
    text = """
        import pyarrow as pa, pyarrow.parquet as pq
        pq.write_table(pa.table({"a": list(range(20_000))}), "p.parquet", row_group_size=SIZE)
        pq.ParquetFile("p.parquet").read()
    """
    finding = only(findings_of(program.traced(text.replace("SIZE", "100"))), "parquet-small-groups")
    assert finding.evidence[0].values["row_groups"] == 200 and finding.evidence[0].values["rows"] == 20_000
    assert none(findings_of(program.traced(text.replace("SIZE", "20_000"), log="one.pyio")), "parquet-small-groups")
