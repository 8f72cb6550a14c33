"""Perfetto's, Chrome's and Firefox's formats: every operation is there, nested, with its bytes, errors and flows."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import pyio_trace
from tests.analysis.test_loader_views import FETCH, WAIT, Loaders
from tests.export.pictures import PROGRAM, export, hostile_log, shown
from tests.export.schemas import FIREFOX, valid
from tests.export.wire import PerfettoTrace, Slice
from tests.support.programs import Outcome, Runner, succeeded
from tests.support.smallrun import START, small_run


def key(name: str, begin: int, end: int, args: dict[str, Any]) -> tuple[Any, ...]:
    return name, begin, end, args.get("bytes"), args.get("calls", 1), args.get("errno", 0)


def of_perfetto(path: Path) -> tuple[PerfettoTrace, Counter[tuple[Any, ...]]]:
    found = PerfettoTrace(path)
    signed = [one.args | {"errno": _signed(one.args.get("errno", 0))} for one in found.slices]
    return found, Counter(
        key(one.name, one.begin, one.end, args) for one, args in zip(found.slices, signed, strict=True)
    )


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def ns(text: float) -> int:
    return round(text * 1000)


def of_chrome(path: Path) -> tuple[dict[str, Any], list[Slice], Counter[tuple[Any, ...]]]:
    whole = json.loads(path.read_text())
    base = whole["baseTimeNanoseconds"]
    names: dict[tuple[str, int, int], str] = {}
    slices, stacks = [], {}
    for event in whole["traceEvents"]:
        if event["ph"] == "M":
            names[event["name"], event["pid"], event["tid"]] = str(next(iter(event["args"].values())))
    for event in whole["traceEvents"]:
        if event["ph"] != "X":
            continue
        where = event["pid"], event["tid"]
        begin = base + ns(event["ts"])
        one = Slice(names["process_name", where[0], 0], names["thread_name", *where], where[1], event["name"],
                    event["cat"], begin, 0, event["args"], end=begin + ns(event["dur"]))  # fmt: skip
        stack = stacks.setdefault(where, [])
        while stack and stack[-1].end <= begin:
            stack.pop()
        assert not stack or one.end <= stack[-1].end, "slices overlap"
        one.depth = len(stack)
        stack.append(one)
        slices.append(one)
    return whole, slices, Counter(key(one.name, one.begin, one.end, one.args) for one in slices)


@pytest.fixture
def outcome(program: Runner) -> Outcome:
    return succeeded(program.traced(PROGRAM, name="job.py"))


def test_perfetto_has_every_operation(outcome: Outcome, tmp_path: Path) -> None:
    found, slices = of_perfetto(export(outcome.path, tmp_path / "x", "perfetto"))
    assert slices == shown(outcome.path) and found.slices
    check_slices(found.slices)
    flows = {number: (one, other) for one in found.slices for number in one.leaving
             for other in found.slices if number in other.arriving}  # fmt: skip
    assert len(flows) == sum(len(one.leaving) for one in found.slices)
    check_flows(list(flows.values()))


def test_chrome_has_every_operation(outcome: Outcome, tmp_path: Path) -> None:
    whole, slices, counts = of_chrome(export(outcome.path, tmp_path / "x", "chrome"))
    assert counts == shown(outcome.path)
    check_slices(slices)
    at = {(one.thread, one.process, one.begin): one for one in reversed(slices)}
    by_tid = {(event["tid"], event["pid"]): event["args"]["name"] for event in whole["traceEvents"]
              if event["name"] == "thread_name"}  # fmt: skip
    by_pid = {event["pid"]: event["args"]["name"] for event in whole["traceEvents"] if event["name"] == "process_name"}
    ends: dict[tuple[int, str], Slice] = {}
    for event in whole["traceEvents"]:
        if event["ph"] in ("s", "f"):
            place = by_tid[event["tid"], event["pid"]], by_pid[event["pid"]]
            ends[event["id"], event["ph"]] = at[*place, whole["baseTimeNanoseconds"] + ns(event["ts"])]
    check_flows([(one, ends[number, "f"]) for (number, kind), one in ends.items() if kind == "s"])


def check_slices(slices: list[Slice]) -> None:
    # layers are nested: a write of a file object has the system call in it
    threads = {(one.process, one.thread) for one in slices}
    assert len({process for process, _ in threads}) == 2 and sum(thread == "main thread" for _, thread in threads) == 2
    assert len(threads) >= 3  # one thread may have run all tasks
    for one in slices:
        if one.category == "posix" and one.name == "write" and one.args["path"].endswith("/f9"):
            outer = [other for other in slices if (other.process, other.thread) == (one.process, one.thread)
                     and other.begin <= one.begin and other.end >= one.end and other.depth < one.depth]  # fmt: skip
            assert {"app"} <= {other.category for other in outer}
            assert one.args["line"].endswith("job.py:6:work") or one.args["line"].endswith("job.py:4:work")
    (stat,) = [one for one in slices if one.name == "stat" and one.args.get("path", "").endswith("/none")]
    assert stat.args["errno"] == 2
    many = [one for one in slices if one.args.get("calls", 1) > 1000]
    assert many and all(one.args["time_ns"] <= one.end - one.begin for one in many)


def check_flows(flows: list[tuple[Slice, Slice]]) -> None:
    # THEN the span that handed the work over leads to the work in each thread
    handed = [target for source, target in flows if source.name == "all"]
    assert len({target.thread for target in handed}) >= 1 and len(handed) >= 4
    assert all(target.thread != "main thread" and target.begin >= source.begin for source, target in flows)


def test_flows_of_batches(tmp_path: Path) -> None:
    # GIVEN a batch that was fetched before the trainer waited for it, and one that was begun later
    made = Loaders()
    made.call(FETCH, 1, 100, 300, batch=0)
    made.call(WAIT, 0, 350, 400, batch=0)
    made.call(WAIT, 0, 500, 900, batch=1)
    made.call(FETCH, 1, 600, 800, batch=1)
    made.log(tmp_path)
    # WHEN it is exported THEN flows lead from each fetch to its wait, forward in time
    found, _ = of_perfetto(export(tmp_path / "run.pyio", tmp_path / "p", "perfetto"))
    base = min(one.begin for one in found.slices) - 100
    at = {(one.name, one.begin - base): one for one in found.slices}
    for fetch, wait in ((100, 350), (600, 500)):
        source, target = at["DataLoader.fetch", fetch], at["DataLoader.__next__", wait]
        assert source.leaving and source.leaving == target.arriving
        assert source.process != target.process
    events = json.loads(export(tmp_path / "run.pyio", tmp_path / "c", "chrome").read_text())["traceEvents"]
    ends = {(event["id"], event["ph"]): event for event in events if event["ph"] in "sf"}
    assert len(ends) == 4
    for number in (1, 2):
        source, target = ends[number, "s"], ends[number, "f"]
        assert source["ts"] <= target["ts"] and source["pid"] == 101 and target["pid"] == 100


@pytest.mark.parametrize("to", ["perfetto", "chrome"])
def test_overlapping_spans_of_a_thread(to: str, program: Runner, tmp_path: Path) -> None:
    # GIVEN tasks of asyncio whose spans overlap without lying within each other
    outcome = succeeded(
        program.traced("""\
        import asyncio
        import pyio_trace
        async def work(name, before, inside):
            await before.wait()
            with pyio_trace.span(name):
                inside.set()
                with open(name, "w") as file:
                    file.write(name)
                await asyncio.sleep(0.02)
        async def all_of_them():
            events = [asyncio.Event() for _ in range(4)]
            events[0].set()
            await asyncio.gather(*(work(f"span{n}", events[n], events[n + 1]) for n in range(3)))
        asyncio.run(all_of_them())
    """)
    )
    output = export(outcome.path, tmp_path / "x", to)
    slices = PerfettoTrace(output).slices if to == "perfetto" else of_chrome(output)[1]
    spans = [one for one in slices if one.category == "user"]
    # THEN each has a track of its own in the same process, and the I/O of the first lies within it
    assert [one.name for one in spans] == ["span0", "span1", "span2"] and len({one.track for one in spans}) == 3
    assert [one.thread for one in spans] == ["main thread", *["main thread (overlapping)"] * 2]
    assert len({one.process for one in spans}) == 1
    (first,) = [one for one in slices if one.name == "write" and one.args.get("path", "").endswith("/span0")]
    assert first.track == spans[0].track and first.depth > spans[0].depth


def test_counters(outcome: Outcome, tmp_path: Path) -> None:
    counters = PerfettoTrace(export(outcome.path, tmp_path / "x", "perfetto")).counters
    table = pyio_trace.open(outcome.path).operations(["layer", "op_class", "bytes_moved", "imported"]).to_pylist()
    written = sum(
        row["bytes_moved"] or 0 for row in table
        if row["op_class"] == "write" and row["layer"] in ("stdio", "posix") and not row["imported"]
    )  # fmt: skip
    # WHEN each value is held until the next one THEN the area is what was written
    area = 0.0
    for (_, name), points in counters.items():
        assert points[-1][1] == 0 and points == sorted(points)
        if name == "bytes written per second":
            area += sum(value * (after - time) for (time, value), (after, _) in pairwise(points))
    assert round(area / 1e9) == written


def of_firefox(path: Path) -> tuple[dict[str, Any], Counter[tuple[Any, ...]]]:
    whole = json.loads(path.read_text())
    valid(whole, FIREFOX)
    base = whole["meta"]["startTime"] * 1e6
    markers: Counter[tuple[Any, ...]] = Counter()
    for thread in whole["threads"]:
        for table in ("samples", "markers", "stackTable", "frameTable", "funcTable"):
            columns = {len(value) for value in thread[table].values() if isinstance(value, list)}
            assert columns == {thread[table]["length"]}, table
        for table, column, other in (
            ("samples", "stack", "stackTable"), ("stackTable", "frame", "frameTable"),
            ("frameTable", "func", "funcTable"), ("stackTable", "prefix", "stackTable"),
        ):  # fmt: skip
            known = [one for one in thread[table][column] if one is not None]
            assert all(0 <= one < thread[other]["length"] for one in known)
        assert all(at is None or at < place for place, at in enumerate(thread["stackTable"]["prefix"]))
        assert thread["samples"]["time"] == sorted(thread["samples"]["time"])
        one = thread["markers"]
        for data, name, begin, end in zip(one["data"], one["name"], one["startTime"], one["endTime"], strict=True):
            assert thread["stringArray"][name] == data["operation"]
            markers[key(data["operation"], round(begin * 1e6), round(end * 1e6), data)] += 1
    assert base > 1e17
    return whole, markers


def test_firefox_has_every_operation(outcome: Outcome, tmp_path: Path) -> None:
    whole, markers = of_firefox(export(outcome.path, tmp_path / "x", "firefox"))
    every = shown(outcome.path)
    base = min(begin for _, begin, *_ in every) - min(begin for _, begin, *_ in markers)
    assert abs(base - whole["meta"]["startTime"] * 1e6) < 1000
    assert markers == Counter(
        {(op, begin - base, end - base, *more): n for (op, begin, end, *more), n in every.items()}
    )
    # AND stacks lead from the outermost frame to the line
    worker = next(one for one in whole["threads"] if "(forked)" in one["processName"])
    texts = worker["stringArray"]
    data = next(one for one in worker["markers"]["data"] if one["operation"] == "BufferedWriter.write")
    at, lines = data["cause"]["stack"], []
    while at is not None:
        frame = worker["stackTable"]["frame"][at]
        function = worker["frameTable"]["func"][frame]
        name, file = worker["funcTable"]["name"][function], worker["funcTable"]["fileName"][function]
        lines.append((texts[name], texts[file].rpartition("/")[2], worker["frameTable"]["line"][frame]))
        at = worker["stackTable"]["prefix"][at]
    assert lines == [("work", "job.py", 6), ("<module>", "job.py", 12)]


def test_a_run_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = small_run(tmp_path / "run.pyio")
    found, counts = of_perfetto(export(log, tmp_path / "x", "perfetto"))
    said = capsys.readouterr().out
    assert counts == shown(log)
    at = {(one.name, one.begin - START): one for one in found.slices}
    # THEN a row of 1,000 calls lasts from the first begin to the last end, around the read in it
    lines = at["TextIOWrapper.__next__", 199_000]
    assert (lines.end - lines.begin, lines.args["calls"], lines.args["time_ns"]) == (200_000, 1_000, 50_000)
    assert at["pread", 299_000].depth == 1 and "1 interval stands for 1,000 calls" in said
    # AND a call that never returned lasts until its process ended
    read = at["read", 699_000]
    assert (read.end - START, read.args["in_flight"]) == (899_000, 1) and "1 call did not return" in said
    # AND it is said what there is not
    assert "2 calls of Python's imports left out" in said and "the log is not complete" in said
    assert max(len(line) for line in said.splitlines() if str(tmp_path) not in line) <= 80


def test_imports_if_wanted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = small_run(tmp_path / "run.pyio")
    found, _ = of_perfetto(export(log, tmp_path / "x", "perfetto", "--imports"))
    assert len(found.slices) == pyio_trace.open(log).rows()
    assert "Python's imports" not in capsys.readouterr().out


def test_hostile_names(tmp_path: Path) -> None:
    log = hostile_log(tmp_path / "run.pyio")
    found, _ = of_perfetto(export(log, tmp_path / "p", "perfetto"))
    _, slices, _ = of_chrome(export(log, tmp_path / "c", "chrome"))
    firefox, _ = of_firefox(export(log, tmp_path / "f", "firefox"))
    paths = [one.args["path"] for one in found.slices]
    assert len(paths) == 6 and paths == [one.args["path"] for one in slices]
    assert paths == [one["filename"] for one in firefox["threads"][0]["markers"]["data"]]
    # THEN a name is one line that shows all of its characters, and no file can end a script
    assert all(one.isprintable() for one in paths) and "/d/</script><b>" in paths
    assert "\\u202e" in "".join(paths) and "\\n" in "".join(paths)
    assert b"</script" not in (tmp_path / "c").read_bytes()


def test_perfettos_own_parser_reads_the_same(outcome: Outcome, tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf")
    protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    output = export(outcome.path, tmp_path / "x", "perfetto")
    own, trace = PerfettoTrace(output), protos.Trace.FromString(output.read_bytes())
    # THEN nothing is unknown to it: what it writes from what it has read is as long
    for packet in trace.packet:
        packet.DiscardUnknownFields()
    assert len(trace.SerializeToString()) == output.stat().st_size
    begins = [one for one in trace.packet if one.track_event.type == protos.TrackEvent.TYPE_SLICE_BEGIN]
    assert [one.timestamp + own.base for one in begins] == [one.begin for one in own.slices]
    names = {one.iid: one.name for packet in trace.packet for one in packet.interned_data.event_names}
    assert [names[one.track_event.name_iid] for one in begins] == [one.name for one in own.slices]
    assert [list(one.track_event.flow_ids) for one in begins] == [one.leaving for one in own.slices]
    threads = {one.track_descriptor.thread.tid for one in trace.packet if one.track_descriptor.HasField("thread")}
    assert threads >= {row["tid"] for row in outcome.rows if not row.get("imported") and row["tid"]}
