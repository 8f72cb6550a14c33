"""What differs between runs: pairs, series, and conditions on the difference."""
