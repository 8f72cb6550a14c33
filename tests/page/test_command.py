"""`pyio-trace report`: where the file goes, and what is never overwritten."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pyio_trace.cli.main import main
from tests.support.smallrun import small_run

pytestmark = pytest.mark.once


def test_beside_the_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = small_run(tmp_path / "my run.pyio")
    assert main(["report", str(log)]) == 0
    out, err = capfd.readouterr()
    file = tmp_path / "my run.html"
    assert (out, err) == (f"{file}  {_size(file)}\n", "")
    assert file.read_text().startswith("<!doctype html>")


def _size(file: Path) -> str:
    from pyio_trace.units import size

    return size(file.stat().st_size)


def test_of_a_folder_beside_it(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    small_run(tmp_path / "logs" / "a.pyio")
    assert main(["report", f"{tmp_path}/logs/"]) == 0
    assert (tmp_path / "logs.html").exists()


def test_what_exists_is_kept_unless_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log, file = small_run(tmp_path / "a.pyio"), tmp_path / "a.html"
    file.write_text("mine")
    assert main(["report", str(log)]) == 2
    assert (
        capfd.readouterr().err
        == f"pyio-trace: {file} exists: name another file with -o, or replace it with --force [output-exists]\n"
    )
    assert file.read_text() == "mine"
    assert main(["report", str(log), "--force"]) == 0
    assert file.read_text() != "mine"


def test_a_link_is_not_written_through(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Where others may write, a link of theirs could lead to a file of ours."""
    log, file, ours = small_run(tmp_path / "a.pyio"), tmp_path / "a.html", tmp_path / "ours"
    ours.write_text("mine")
    file.symlink_to(ours)
    assert main(["report", str(log), "--force"]) == 2
    assert capfd.readouterr().err.startswith(f"pyio-trace: {file} is not a plain file")
    assert (ours.read_text(), os.readlink(file)) == ("mine", str(ours))


def test_what_is_replaced_stays_until_the_new_one_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    log, file = small_run(tmp_path / "a.pyio"), tmp_path / "a.html"
    file.write_text("mine")

    def full(*_: object) -> None:
        assert file.read_text() == "mine"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert main(["report", str(log), "--force"]) == 2
    assert capfd.readouterr().err.endswith("cannot be written: No space left on device [unwritable-output]\n")
    assert (file.read_text(), sorted(os.listdir(tmp_path))) == ("mine", ["a.html", "a.pyio"])


def test_never_the_log_itself(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = small_run(tmp_path / "a.html")
    before = log.read_bytes()
    for options in ([], ["--force"], ["-o", str(log), "--force"]):
        assert main(["report", str(log), *options]) == 2
        assert capfd.readouterr().err.endswith("[contradictory-options]\n")
    assert log.read_bytes() == before


def test_what_cannot_be_written(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = small_run(tmp_path / "a.pyio")
    assert main(["report", str(log), "-o", str(tmp_path / "none" / "a.html")]) == 2
    assert "[unwritable-output]" in capfd.readouterr().err
    assert main(["report", str(log), "-o", ""]) == 2
    assert "[missing-value]" in capfd.readouterr().err
    assert main(["report", str(tmp_path / "none.pyio")]) == 2
    assert sorted(os.listdir(tmp_path)) == ["a.pyio"]


def test_in_the_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)  # which says that there is none
    assert main(["report", str(small_run(tmp_path / "a b.pyio")), "--open"]) == 0
    assert opened == [(tmp_path / "a b.html").as_uri()]
    assert capfd.readouterr().err == "pyio-trace: there is no browser here: open the file yourself\n"


def test_it_says_that_operations_are_left_out(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(small_run(tmp_path / "a.pyio")), "--max-operations", "3"]) == 0
    assert capfd.readouterr().out.endswith(", the 3 longest of 14 operations\n")


def test_a_selection(tmp_path: Path) -> None:
    from tests.page.decode import Page

    log = small_run(tmp_path / "a.pyio")
    assert main(["report", str(log), "--path", "/d/out.bin"]) == 0
    page = Page(tmp_path / "a.html")
    assert {row["path"] for row in page.rows(0)} == {"/d/out.bin"}
    assert any("Selected" in one for one in page.facts["run"]["states"])
