"""One file a library, named as one imports it; see capture/instrument.py and docs/adding-a-library.md."""
