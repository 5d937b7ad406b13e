"""The trainer that every workload here uses, one noun per file."""
