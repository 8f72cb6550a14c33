"""What `pyio-trace doctor` looks at: this installation, a live process, a script."""
