"""What `pyio-trace doctor` examines: this installation, a live process, a script."""
