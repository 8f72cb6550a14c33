"""How functions of libraries are watched: import hooks, the registry of instruments, and what these may use."""
