"""Greenlets take turns on one thread: none is in another's span or call, whoever switches, and however."""

from __future__ import annotations

import pytest

from tests.support.programs import Runner, succeeded

pytest.importorskip("greenlet")

PRELUDE = """\
import contextvars, io, os
import greenlet
import pyio_trace

def put(name):
    with open(name, "wb", buffering=0) as file:
        file.write(b"x" * 100)

"""
#: Three greenlets, each in a span of its own, switch to the main one within it, and to each other.
PLAIN = """\
    hub = greenlet.getcurrent()
    def request(n):
        with pyio_trace.span(f"request-{n}"):
            hub.switch()
            put(f"request-{n}")
            workers[(n + 1) % 3].switch()
            put(f"late-{n}")
        hub.switch()
    workers = [greenlet.greenlet(request) for _ in range(3)]
    with pyio_trace.span("start"):
        for n, worker in enumerate(workers):
            worker.switch(n)
        put("start")
    while not all(worker.dead for worker in workers):
        for worker in workers:
            worker.switch()
    put("none")
"""
PLAIN_FILES = {
    "start": ["start"], "none": [],
    **{f"{kind}-{n}": [f"request-{n}"] for n in range(3) for kind in ("request", "late")},
}  # fmt: skip
#: An exception is thrown into a greenlet that waits in a span; another one ends and goes back to its parent.
THROWN = """\
    hub = greenlet.getcurrent()
    def waits():
        with pyio_trace.span("waits"):
            try:
                hub.switch()
            except ValueError:
                put("thrown")
    one = greenlet.greenlet(waits)
    one.switch()
    with pyio_trace.span("main"):
        one.throw(ValueError)
        put("main")
    assert one.dead
    one.switch()
    put("none")
"""
#: A greenlet that has a context goes on in the span in which that was copied, or which is open where they share it.
CONTEXTS = """\
    def work(name):
        put(name)
    with pyio_trace.span("outer"):
        copied, plain = greenlet.greenlet(work), greenlet.greenlet(work)
        copied.gr_context = contextvars.copy_context()
    with pyio_trace.span("other"):
        copied.switch("outer")
        plain.switch("none")
        shared = greenlet.greenlet(work)
        shared.gr_context = greenlet.getcurrent().gr_context
        shared.switch("other")
"""
#: gevent switches in C, to its hub and from there to greenlets, which have empty contexts: they begin in no span.
GEVENT = """\
    import gevent, gevent.queue
    def request(n):
        with pyio_trace.span(f"request-{n}"):
            gevent.sleep(0)
            put(f"request-{n}")
            queue.put(n)
    def serve():
        for _ in range(3):
            put(f"serve-{queue.get()}")
    queue = gevent.queue.Queue(1)
    server = gevent.spawn(serve)
    with pyio_trace.span("batch"):
        jobs = [gevent.spawn(request, n) for n in range(3)]
        gevent.joinall([*jobs, server])
        put("batch")
    put("none")
"""
GEVENT_FILES = {
    "batch": ["batch"], "none": [],
    **{f"request-{n}": [f"request-{n}"] for n in range(3)}, **{f"serve-{n}": [] for n in range(3)},
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PLAIN, PLAIN_FILES),
        (THROWN, {"thrown": ["waits"], "main": ["main"], "none": []}),
        (CONTEXTS, {"outer": ["outer"], "none": [], "other": ["other"]}),
        (GEVENT, GEVENT_FILES),
    ],
)
def test_each_greenlet_has_its_span(program: Runner, text: str, expected: dict[str, list[str]]) -> None:
    if "gevent" in text:
        pytest.importorskip("gevent")
    # GIVEN greenlets that switch within spans WHEN they write files
    outcome = succeeded(program.traced(PRELUDE + text.replace("\n    ", "\n")[4:]))
    # THEN each file was written in the spans of its own greenlet
    found = {}
    for name in expected:
        (row,) = outcome.select(op="write", layer="posix", path=program.folder / name)
        found[name] = [parent["op"] for parent in outcome.parents(row) if parent["layer"] == "user"]
    assert found == expected


def test_calls_of_file_objects_are_each_greenlets_own(program: Runner) -> None:
    # GIVEN a file object whose raw file is written in Python and switches, so that other greenlets write in between,
    # small pieces and with the same objects
    outcome = succeeded(
        program.traced(
            PRELUDE
            + """
class Raw(io.FileIO):
    def write(self, data):
        hub.switch()
        return super().write(data)
hub = greenlet.getcurrent()
def work(n):
    with open(f"direct-{n}", "wb", buffering=0) as direct, io.BufferedWriter(Raw(f"switching-{n}", "w"), 64) as file:
        for step in range(5):
            file.write(b"s" * 40)
            for _ in range(10):
                direct.write(b"d" * (n + 1))
workers = [greenlet.greenlet(work) for _ in range(3)]
for n, worker in enumerate(workers):
    worker.switch(n)
while not all(worker.dead for worker in workers):
    for worker in workers:
        worker.switch()
"""
        )
    )
    for n in range(3):
        # WHEN the log is read THEN each file has the bytes that were written to it, once, by a call of its own
        direct, switching = (program.folder / f"{name}-{n}" for name in ("direct", "switching"))
        for path, size in ((direct, 50 * (n + 1)), (switching, 200)):
            assert path.stat().st_size == size
            rows = outcome.select(op="write", layer="posix", path=path)
            assert sum(row["bytes_moved"] for row in rows) == size
            for row in rows:
                assert all(parent["path"] in (None, str(path)) for parent in outcome.parents(row))
        written = outcome.select(layer="app", path=direct, op="FileIO.write")
        assert sum(row["calls"] for row in written) == 50
        assert sum(row["bytes_moved"] for row in written) == 50 * (n + 1)


def test_switches_are_as_before_when_tracing_ends(program: Runner) -> None:
    # GIVEN greenlets that have begun while traced and before WHEN tracing starts and ends between their switches
    outcome = succeeded(
        program.bare(
            PRELUDE
            + """
hub, done = greenlet.getcurrent(), []
def work(name):
    for step in range(4):
        with pyio_trace.span(name):
            hub.switch()
            put(f"{name}-{step}")
    done.append(name)
early = greenlet.greenlet(work)
early.switch("early")
for run in range(2):
    with pyio_trace.trace(f"run-{run}.pyio"):
        late = greenlet.greenlet(work)
        late.switch(f"late-{run}")
        early.switch()
        late.switch()
    late.switch(), late.switch(), late.switch()
early.switch(), early.switch()
print(done, greenlet.gettrace())
"""
        )
    )
    # THEN the program does what it did
    assert outcome.stdout == "['late-0', 'late-1', 'early'] None\n"
