"""Data of the workloads: readers of published files, and generated data for machines without them."""
