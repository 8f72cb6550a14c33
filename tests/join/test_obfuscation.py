"""A log whose names are replaced says what happened, and to nothing that has a name."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pyio_trace.analysis.summary import kept_summary
from pyio_trace.cli.main import main
from pyio_trace.errors import ConfigError
from pyio_trace.events import OPERATIONS
from pyio_trace.join.pack.packer import pack
from pyio_trace.join.pack.replaced_names import Names
from pyio_trace.join.sources.opening import open_log
from pyio_trace.log import layout
from tests.support.logwriter import LogWriter
from tests.support.programs import Runner, succeeded

KEY = "a key that nobody guesses"
#: A part of every name that the program gives.
SECRET = "quokka"

PROGRAM = """
import json, mmap, os, pathlib, sqlite3, subprocess, sys, multiprocessing, tempfile
import pyio_trace

class QuokkaStore:
    def quokka_write(self, path):
        with pyio_trace.span("quokka epoch", quokka_key="quokka value", rows=3, nested={"quokka": ["quokka", 1]}):
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"x" * 5000)

@pyio_trace.span("quokka span")
def quokka_read(path):
    return [open(path).read() for _ in range(3)]

def quokka_worker(path):
    open(path).read()

if __name__ == "__main__":
    store = QuokkaStore()
    for number in range(4):
        store.quokka_write(pathlib.Path(f"quokka-{number}/shard-quokka-{number}.tar.gz"))
    quokka_read("quokka-1/shard-quokka-1.tar.gz")
    os.rename("quokka-0/shard-quokka-0.tar.gz", "quokka-0/moved.quokka")
    try:
        open("missing.quokka")
    except OSError:
        pass
    with open("quokka-1/shard-quokka-1.tar.gz", "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[0] = 7
    base = sqlite3.connect("quokka.sqlite3")
    base.execute("create table quokkas (quokka text)")
    base.execute("insert into quokkas values ('quokka')")
    base.commit()
    json.dump({"quokka": 1}, open("quokka.json", "w"))
    subprocess.run(["sh", "-c", "cat quokka.json > /dev/null", "--quokka=quokka"])
    process = multiprocessing.get_context("spawn").Process(target=quokka_worker, args=("quokka.json",), name="quokka")
    process.start()
    process.join()
    with tempfile.TemporaryDirectory(prefix="quokka") as folder:
        open(os.path.join(folder, "tmp"), "w").close()
"""


def every_text(path: Path) -> str:
    """All that a Parquet log says, once it is decompressed."""
    file = pq.ParquetFile(path)
    texts = [
        str(value) for column in OPERATIONS if column.type == "dictionary"
        for value in file.read([column.name])[column.name].unique().to_pylist()
    ]  # fmt: skip
    metadata = {**(file.metadata.metadata or {}), **(file.schema_arrow.metadata or {})}
    return "\n".join([*texts, *(f"{name.decode()} {value.decode()}" for name, value in metadata.items())])


@pytest.fixture
def traced(program: Runner) -> Path:
    done = program.traced(
        PROGRAM, "--quokka-rate=0.1", "quokka@host", "-k", "quokka", name="quokka_job.py", log="run.parquet",
        env={"SLURM_JOB_ID": "quokka77", "SLURMD_NODENAME": "quokkanode", "PYIO_TRACE_FOLLOW": "all"},
    )  # fmt: skip
    return succeeded(done).path


def test_no_name_of_the_program_is_left(
    traced: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a log full of names, which keeps its summary
    monkeypatch.setattr(kept_summary, "WORTH_KEEPING", 1)
    before = every_text(traced)
    assert before.lower().count(SECRET) > 50
    # WHEN it is obfuscated
    assert main(["pack", str(traced), str(tmp_path / "shown.parquet"), "--obfuscate", KEY]) == 0
    # THEN none of them is left
    after = every_text(tmp_path / "shown.parquet")
    assert "pyio_trace.summary" in after
    assert SECRET not in after.lower()
    assert SECRET.encode() not in (tmp_path / "shown.parquet").read_bytes().lower()
    # AND nobody's folders either, nor the host
    log, shown = open_log(traced), open_log(tmp_path / "shown.parquet")
    for name in {log.info()["host"], *traced.parent.parts[2:]} - {"root", "home"}:
        # as a whole word: in base64 a short one may be there by chance
        assert re.search(rf'[/"]{re.escape(name)}\b', after) is None, name
    # AND the rest is as it was
    numbers = [column.name for column in OPERATIONS if column.type != "dictionary"]
    assert shown.operations(numbers).equals(log.operations(numbers))
    for column in ("layer", "op_class", "op_role", "command", "file_kind"):
        assert shown.operations([column]).equals(log.operations([column]))
    paths, replaced = (one.operations(["path"])["path"].to_pylist() for one in (log, shown))
    assert [path and path.count("/") for path in paths] == [path and path.count("/") for path in replaced]
    pairs = set(zip(paths, replaced, strict=True))
    assert len(pairs) == len({old for old, _ in pairs}) == len({new for _, new in pairs})
    assert {path.endswith(".tar.gz") for path in replaced if path and path.endswith(".gz")} == {True}
    # AND every command works on it
    capsys.readouterr()
    for words in (
        ["summary", "--all"], ["insights"], ["events"], ["files"], ["stacks"], ["processes"], ["counters"],
        ["samples"], ["view", "by_pattern"], ["view", "by_line"], ["view", "statements"],
    ):  # fmt: skip
        assert main([words[0], *(words[1:] if words[0] != "view" else []), *(
            [words[1]] if words[0] == "view" else []), str(tmp_path / "shown.parquet")]) in (0, 1), words  # fmt: skip
        assert SECRET not in capsys.readouterr().out.lower()
    # AND libraries' lines are still told from the program's
    ours = {site.partition(":")[0] for site in log.operations(["site"])["site"].to_pylist() if site and SECRET in site}
    sites = [site for site in shown.operations(["site"])["site"].to_pylist() if site]
    assert ours and any(shown.own_code().is_own(site) for site in sites)
    assert sum(map(shown.own_code().is_own, sites)) == sum(
        log.own_code().is_own(site) for site in log.operations(["site"])["site"].to_pylist() if site
    )


def test_the_same_name_is_the_same_in_all_logs_of_a_key(tmp_path: Path) -> None:
    # GIVEN two logs of other programs with a file in common WHEN they are obfuscated
    seen = []
    for number, key in enumerate((KEY, KEY, "another key of somebody")):
        writer = LogWriter(host=f"node{number}.cluster.example")
        process = writer.process(100, argv=["python", f"/home/ann/{number}.py"])
        writer.thread(process, 1).record("STAT", begin=10, desc=writer.string("/scratch/ann/a.h5"))
        writer.save(tmp_path / f"{number}.pyio")
        assert main(["pack", str(tmp_path / f"{number}.pyio"), str(tmp_path / "o.parquet"), "--obfuscate", key]) == 0
        log = open_log(tmp_path / "o.parquet")
        seen.append((log.operations(["path"])["path"].to_pylist(), log.info()["host"].split(".")))
    # THEN it has the same word in those of one key, and the hosts differ but are of one domain
    (first, host), (second, other), (third, far) = seen
    assert first == second != third and first[0].endswith(".h5")
    assert host[0] != other[0] and host[1:] == other[1:] != far[1:]


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("/scratch/ann/run-12/part-0001.parquet", r"/\w+/\w+/\w+-\d{12}/\w+-\d{12}\.parquet"),
        ("s3://ann-bucket/a/b.csv?token=hunter2", r"s3://\w+/\w+/\w+\.csv\?\w+"),
        ("/home/ann/.venv/lib/python3.11/site-packages/h5py/_hl/files.py",
         r"/home/[a-p]+/[a-p]+/lib/python3\.11/site-packages/h5py/_hl/files\.py"),
        ("/home/ann/.venv/lib/python3.11/site-packages/data/patients.csv",
         r"/home/[a-p]+/[a-p]+/lib/python3\.11/site-packages/[a-p]{12}/[a-p]{12}\.csv"),
        ("/home/jane.doe/x", r"/home/[a-p]{12}/[a-p]{12}"),
        ("/tmp/tmpab12cd34/x.pt", r"/tmp/tmp[a-p]{8}/[a-p]{12}\.pt"),
        ("/home/ann/x.pt (deleted)", r"/home/[a-p]{12}/[a-p]{12}\.pt \(deleted\)"),
        ("/dev/shm/ann", r"/dev/shm/[a-p]{12}"),
        ("pipe:[123]", r"pipe:\[123\]"),
        ("a.b.c/../ann", r"[a-p]{12}\.c/\.\./[a-p]{12}"),
        ("", ""),
    ],
)  # fmt: skip
def test_paths(name: str, pattern: str) -> None:
    import re

    # GIVEN a path WHEN it is replaced THEN its kind can be told, and it is the same each time
    names = Names(KEY)
    assert re.fullmatch(pattern, names.path(name)), names.path(name)
    assert names.path(name) == Names(KEY).path(name) and (name == names.path(name)) == (name in ("", "pipe:[123]"))


@pytest.mark.parametrize("text", ["", "null", "[1", '{"a": NaN}', "[" * 50_000, '{"\\ud800": "\\ud800"}', '"x"', "7"])
def test_details_that_nobody_wrote(text: str) -> None:
    # GIVEN a forged detail THEN it becomes JSON all the same
    json.loads(Names(KEY).detail(text))


def test_forged_texts(tmp_path: Path) -> None:
    # GIVEN a log whose texts are not what they should be
    writer = LogWriter(host="a, b\x1b[31m")
    process = writer.process(
        1, argv=["", "-c", "", "-m", "a b"], note=b"at /home/quokka", version=b"quokka", start=layout.START_TOP
    )
    writer.thread(process, 1).record("STAT", begin=10, desc=writer.string(b"\xff/quokka:;\n"))
    pack(writer.save(tmp_path / "a.pyio"), tmp_path / "a.parquet")
    assert main(["pack", str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet"), "--obfuscate", KEY]) == 0
    # THEN they are replaced, and the log can be read
    assert SECRET not in every_text(tmp_path / "b.parquet")
    assert open_log(tmp_path / "b.parquet").rows() == 1


def test_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # GIVEN keys that can be guessed, or are not there
    LogWriter().save(tmp_path / "a.pyio")
    (tmp_path / "short").write_text("short\n")
    (tmp_path / "key").write_text(KEY + "\n")
    log, output = str(tmp_path / "a.pyio"), str(tmp_path / "b.parquet")
    for key in ("", "short", f"@{tmp_path / 'short'}", f"@{tmp_path / 'none'}", f"@{tmp_path}"):
        assert main(["pack", log, output, "--obfuscate", key]) == 2
        assert "--obfuscate" in capsys.readouterr().err
    # THEN they are refused, as is an output that has the log's own name
    assert main(["pack", log, "--obfuscate", KEY]) == 2
    assert main(["pack", log, output, "--remove", "--obfuscate", KEY]) == 2
    assert not Path(output).exists()
    assert main(["pack", log, output, "--obfuscate", f"@{tmp_path / 'key'}"]) == 0
    with pytest.raises(ConfigError):
        Names("1234567")
