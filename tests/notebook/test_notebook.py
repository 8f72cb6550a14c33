"""A notebook that traces cells: run by a kernel, as a user's."""

from __future__ import annotations

from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

pytestmark = [pytest.mark.slow, pytest.mark.once]

CELLS = [
    "%load_ext pyio_trace",
    "%%pyio_trace\nwith open('data', 'wb') as file:\n    for n in range(300): file.write(bytes(10_000))\nanswer = 42",
    "answer, pyio_trace_log",
    "sum(row['bytes_moved'] for row in pyio_trace_log.operations().to_pylist()\n"
    "    if row['op'] == 'write' and row['path'].endswith('data'))",
    "pyio_trace_log",
    "pyio_trace_log.summary()",
    "pyio_trace_log.findings()",
    "%%pyio_trace --nonsense\n1",
    "%%pyio_trace\n1 / 0",
    "%%pyio_trace -o kept.parquet --sample 100\nsum(range(10))",
    "import pyio_trace\npyio_trace.current_run() is None",
]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    """What each of CELLS shows."""
    folder = tmp_path_factory.mktemp("notebook")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HOME", "IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR"):
            patch.setenv(name, str(folder / name))
        for name in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE"):
            patch.delenv(name, raising=False)
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
        resources = {"metadata": {"path": str(folder)}}
        client = nbclient.NotebookClient(notebook, timeout=240, allow_errors=True, resources=resources)
        client.execute()
    assert (folder / "kept.parquet").exists()
    return [list(cell.outputs) for cell in notebook.cells]


def html_of(shown: list[dict[str, Any]]) -> str:
    return "".join(one["data"].get("text/html", "") for one in shown if "data" in one)


def text_of(shown: list[dict[str, Any]]) -> str:
    plain = [one["data"]["text/plain"] if "data" in one else one.get("text") or one.get("evalue", "") for one in shown]
    return "\n".join(plain)


def test_a_traced_cell_shows_what_it_did(outputs: list[list[dict[str, Any]]]) -> None:
    # GIVEN a cell that writes 3 MB THEN beneath it are a sentence and pictures, in plain text the sentence
    shown = outputs[1]
    assert html_of(shown).count("<svg ") >= 2 and "Time by line" in html_of(shown)
    assert "<script" not in html_of(shown) and "log: " in text_of(shown)
    # AND its variables are those of the notebook, its log has the bytes
    assert text_of(outputs[2]).startswith("(42, Log(")
    assert text_of(outputs[3]) == "3000000"


def test_what_a_log_gives_is_html(outputs: list[list[dict[str, Any]]]) -> None:
    for shown in outputs[4:7]:
        assert '<div class="pyio-trace">' in html_of(shown)
    assert "<svg " in html_of(outputs[5]) and "<table>" in html_of(outputs[4])


def test_mistakes_take_one_line(outputs: list[list[dict[str, Any]]]) -> None:
    # GIVEN an option that does not exist THEN one line says so; a cell that fails has its traceback, and the report
    assert "--nonsense" in text_of(outputs[7]) and "Traceback" not in str(outputs[7])
    assert any(one.get("ename") == "ZeroDivisionError" for one in outputs[8]) and "<svg" in html_of(outputs[8])
    # AND tracing has ended
    assert text_of(outputs[10]) == "True"
