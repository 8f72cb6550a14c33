"""Whether the tests notice mistakes: lists of small wrong changes, and a runner that tries each."""
