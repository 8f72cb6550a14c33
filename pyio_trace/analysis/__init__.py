"""What a log means in figures: columnar passes over its operations; pyio_trace.report puts them into words."""
