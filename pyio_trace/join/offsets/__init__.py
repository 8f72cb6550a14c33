"""Where plain reads and writes took place: positions, appends, file sizes."""
