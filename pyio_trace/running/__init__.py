"""Programs that are running, looked at from outside: what they wait for (`why`), what they do now (`top`)."""
