"""The networks of the workloads."""
