"""One module for each reducer, found by pyio_trace.analysis.reducer.found()."""
