"""The summary as typed data, which reports print and JSON has."""
