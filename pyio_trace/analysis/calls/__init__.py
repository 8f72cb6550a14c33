"""What single operations mean: their order, file names, details and source lines."""
