"""One file a library, named as the library is imported; see docs/how-to/add-a-library.md."""
