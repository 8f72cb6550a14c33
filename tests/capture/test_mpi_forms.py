"""Forms of MPI-IO by MPI library: calls, ranks, bytes, places and parents are what the program computes."""

from __future__ import annotations

import pytest

from tests import mpi_table

pytest.importorskip("mpi4py", reason="mpi4py is not installed")


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("form", mpi_table.FORMS)
@pytest.mark.parametrize("library", mpi_table.LIBRARIES)
def test_forms(library: str, form: str) -> None:
    # WHEN four ranks move 16,000 bytes in this way THEN the log has the calls that they say they made
    if (library, form) == mpi_table.NEITHER:
        pytest.skip("no wheel has it")
    found = mpi_table.run(library, form)
    assert sorted(found.seen, key=str) == sorted(found.computed, key=str)
    assert found.equal() and found.written >= 16_000
