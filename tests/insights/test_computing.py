"""Lines that compute for long on what they read or write, and those that only look so."""

from __future__ import annotations

import pytest

from pyio_trace.insights.function_words import COSTLY, costly
from tests.support.findings import findings_of, none, only, without_times
from tests.support.programs import Runner

pytestmark = pytest.mark.once

#: Each works for longer than anything else in its program, at line 5.
WORK = {
    "gzip": """
    import gzip, random
    data = random.Random(1).randbytes(1 << 20)
    f = gzip.open("data.gz", "wb")
    for n in range(16): f.write(data)
    """,
    "json": """
    import json
    text = json.dumps([{"name": str(n), "value": n / 7} for n in range(20_000)])
    total = 0
    for n in range(40): total += len(json.loads(text))
    """,
    "unpacked": """
    import gzip, random
    member = gzip.compress(random.Random(1).randbytes(1 << 20).hex().encode(), 1)
    open("data.gz", "wb").write(member * 60)
    total = len(gzip.open("data.gz").read())
    """,
}
OFTEN = {"costly-function": {"share": 0.2}}


@pytest.mark.parametrize("what", WORK)
def test_a_costly_function_is_found_at_its_line(program: Runner, what: str) -> None:
    # GIVEN a program that spends most of its time in such a function WHEN it is sampled and findings are made
    outcome = program.traced(WORK[what], env={"PYIO_TRACE_SAMPLE": "400"})
    finding = only(findings_of(outcome, without_times(OFTEN)), "costly-function")
    # THEN it says so there, and promises no more than the run
    assert finding.sites[0].line == 5
    assert 0 < finding.recoverable_ns <= finding.recoverable.of_wall_ns
    assert finding.remedy is not None and finding.recoverable.bound == "upper"


def test_a_program_s_own_code_is_not_a_costly_function(program: Runner) -> None:
    # GIVEN a function of the program that is called by a library, and works WHEN it is sampled
    text = """
    import json
    def slow(pairs):
        return sum(n * n for n in range(2_000_000))
    json.loads('{"a": {}}', object_pairs_hook=slow)
    """
    # THEN the library is not told to be slow
    none(findings_of(program.traced(text, env={"PYIO_TRACE_SAMPLE": "400"}), without_times(OFTEN)), "costly-function")


def test_no_entry_takes_what_another_one_means() -> None:
    names = {
        "gzip.GzipFile.write": "Compressing (gzip)", "gzip._GzipReader.read": "Unpacking",
        "lzma.LZMAFile.write": "Compressing (lzma)", "bz2.BZ2File.write": "Compressing (bz2)",
        "tarfile._FileInFile.read": "Unpacking (tar)",
        "zipfile.ZipExtFile.read": "Unpacking (zip)", "zipfile.ZipFile.writestr": "Compressing (zip)",
        "nibabel.loadsave.save": "Packing NIfTI", "nibabel.loadsave.load": "Unpacking NIfTI",
        "json.loads": "Parsing JSON", "json.dumps": "Formatting JSON",
    }  # fmt: skip
    for name, does in names.items():
        found = costly(name)
        assert found is not None and found.does == does, name
    assert costly("numpy.load") is None and costly("gzip.GzipFile.closed") is None
    for one in COSTLY:
        assert not (one.remedy.before or one.remedy.after) or one.remedy.library != "python"


TELL = """
open("text", "w").write("a line\\n" * 2000)
with open("text", MODE) as f:
    while f.readline():
        f.tell()
"""


def test_tell_of_a_text_file(program: Runner) -> None:
    # GIVEN a program that asks for the place of each line of a text WHEN findings are made
    finding = only(findings_of(program.traced(TELL.replace("MODE", "'r'"))), "text-tell")
    # THEN it is told where, and how often
    assert finding.evidence[0].values["calls"] == 2000 and finding.sites[0].line == 5
    # AND a binary file's are not
    none(findings_of(program.traced(TELL.replace("MODE", "'rb'"), log="other.pyio")), "text-tell")


def test_small_tasks_of_threads(program: Runner) -> None:
    # GIVEN a program that hands 3,000 items to threads one by one WHEN it is sampled
    text = """
    import asyncio, os
    async def main():
        for n in range(3000):
            await asyncio.to_thread(os.path.exists, "data")
    asyncio.run(main())
    """
    outcome = program.traced(text, env={"PYIO_TRACE_SAMPLE": "400"})
    # THEN the line is told
    finding = only(findings_of(outcome, without_times({"tiny-tasks": {"share": 0.05}})), "tiny-tasks")
    assert finding.evidence[0].values["tasks"] == 3000 and finding.sites[0].line == 5


@pytest.mark.parametrize(("step", "words"), [("await f.write('a line')", "f.write("), ("await f.read(6)", "f.read(")])
def test_small_pieces_of_aiofiles(program: Runner, step: str, words: str) -> None:
    # GIVEN a program that moves 3,000 small pieces with aiofiles, each as a task of a thread WHEN it is sampled
    pytest.importorskip("aiofiles")
    text = f"""
    import asyncio, aiofiles
    async def main():
        async with aiofiles.open("data", "r" if "read" in {step!r} else "w") as f:
            for n in range(3000):
                {step}
    open("data", "w").write("a line" * 3000)
    asyncio.run(main())
    """
    outcome = program.traced(text, env={"PYIO_TRACE_SAMPLE": "400"})
    # THEN the remedy is to read, or to write, more in one call; it saves no more than the line takes
    finding = only(findings_of(outcome, without_times({"tiny-tasks": {"share": 0.05}})), "tiny-tasks")
    assert finding.remedy is not None and words in finding.remedy.after and finding.remedy.library == "aiofiles"
    values = finding.evidence[0].values
    assert finding.recoverable.bound == "upper" and 0 < finding.recoverable_ns <= int(values["line_ns"])
