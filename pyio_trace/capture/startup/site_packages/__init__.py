"""Files that are installed next to the package, where an interpreter finds them as it starts."""
