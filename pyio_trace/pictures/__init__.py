"""Pictures of a run, each as SVG and as the table behind it."""
