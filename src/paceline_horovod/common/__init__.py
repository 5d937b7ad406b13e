"""What every framework shares: the errors, the worker's place in the world, process sets, matching by name."""
