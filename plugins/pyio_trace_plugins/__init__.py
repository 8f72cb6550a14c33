"""Plugins for systems that run programs of others: Dask, Ray and pytest.  Each is imported by name."""
