"""pickle: objects in files, and the file objects' calls beneath."""

from __future__ import annotations

import json

from tests.support.programs import Runner, alike, succeeded


def test_objects_dumped_and_loaded(program: Runner) -> None:
    # GIVEN a program that pickles a megabyte into a file and gets it back, and pickles in memory
    text = """
    import io, os, pickle, _pickle
    data = {"data": bytes(1_000_000)}
    with open("file.pickle", "wb") as file:
        pickle.dump(data, file)
    with open("file.pickle", "rb") as file:
        assert pickle.load(file=file) == data
    assert pickle.loads(pickle.dumps(data)) == data
    pickle.dump(5, io.BytesIO())
    pickle.Pickler(io.BytesIO()).dump(5)
    again = pickle.loads(pickle.dumps(pickle.load))
    print(pickle.load is _pickle.load, again is pickle.load, os.stat("file.pickle").st_size)
    try:
        pickle.load(io.BytesIO(b""))
    except EOFError as problem:
        print(problem)
    """
    outcome = alike(succeeded(program.traced(text)), program.bare(text))
    path, size = str(program.folder / "file.pickle"), int(outcome.stdout.split()[2])
    # THEN there is one call each with the file's path, and beneath it the bytes of the file
    dumped, in_memory = outcome.select(layer="app", op="pickle.dump")
    loaded, failed = outcome.select(layer="app", op="pickle.load")
    assert [(row["path"], row["bytes_moved"]) for row in (dumped, loaded)] == [(path, None)] * 2
    assert [json.loads(row["detail"]) for row in (dumped, loaded, in_memory)] == [
        {"type": "dict"}, {"type": "dict"}, {"type": "int"},
    ]  # fmt: skip
    assert (in_memory["path"], failed["path"], json.loads(failed["detail"])) == (None, None, {"raised": "EOFError"})
    # (of what was written, the file object keeps the end until it is closed)
    for span, op, later in ((dumped, "write", 8192), (loaded, "read", 0)):
        beneath = [row for row in outcome.select(layer="posix", op=op, path=path) if span in outcome.parents(row)]
        assert size - later <= sum(row["bytes_moved"] for row in beneath) <= size
        assert {row["link"] for row in beneath} == {"thread"}
        asked = [
            row for row in outcome.select(layer="app", path=path) if row["parent"] == span["id"] and row["bytes_moved"]
        ]
        assert sum(row["bytes_moved"] for row in asked) == size
