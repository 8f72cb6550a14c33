"""Parents found after the run, for operations that had none on their own thread."""
