"""Operations as a picture of time: the longest of them as intervals on tracks, sums of the others, counters, flows."""
