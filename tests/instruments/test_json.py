"""json: documents in files, and the file objects' calls beneath."""

from __future__ import annotations

import json

from tests.support.programs import Runner, alike, succeeded


def test_documents_dumped_and_loaded(program: Runner) -> None:
    # GIVEN a program that writes a document and reads it back, and makes one in memory
    text = """
    import io, json, os
    data = {"numbers": list(range(100_000))}
    with open("file.json", "w") as file:
        json.dump(data, file, indent=1)
    with open("file.json") as file:
        assert json.load(fp=file) == data
    assert json.loads(json.dumps(data)) == data
    json.dump([], io.StringIO())
    print(os.stat("file.json").st_size)
    try:
        json.load(io.StringIO("{"))
    except json.JSONDecodeError as problem:
        import traceback
        print(problem, [entry.name for entry in traceback.extract_tb(problem.__traceback__)])
    """
    outcome = alike(succeeded(program.traced(text)), program.bare(text))
    path, size = str(program.folder / "file.json"), int(outcome.stdout.split()[0])
    # THEN there is one call each with the file's path, and beneath it the bytes of the file
    dumped, in_memory = outcome.select(layer="app", op="json.dump")
    loaded, failed = outcome.select(layer="app", op="json.load")
    assert [(row["path"], row["bytes_moved"]) for row in (dumped, loaded, in_memory)] == [(path, None)] * 2 + [
        (None, None)
    ]
    assert [json.loads(row["detail"]) for row in (dumped, loaded, in_memory)] == [
        {"type": "dict"}, {"type": "dict"}, {"type": "list"},
    ]  # fmt: skip
    assert json.loads(failed["detail"])["raised"].endswith("JSONDecodeError")
    asked = [row for row in outcome.select(layer="app", path=path) if row["parent"] in (dumped["id"], loaded["id"])]
    assert sum(row["bytes_moved"] for row in asked if row["parent"] == dumped["id"]) == size
    assert sum(row["bytes_moved"] for row in asked if row["parent"] == loaded["id"]) == size
    # AND what the text layer does not keep back until the file is closed is written beneath it
    wrote = [row for row in outcome.select(layer="posix", op="write", path=path) if dumped in outcome.parents(row)]
    read = [row for row in outcome.select(layer="posix", op="read", path=path) if loaded in outcome.parents(row)]
    assert size - 65536 <= sum(row["bytes_moved"] for row in wrote) <= size
    assert sum(row["bytes_moved"] for row in read) == size
