"""The HTTP interface, one file an API. JSON becomes records here and nowhere else."""
