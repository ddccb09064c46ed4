"""Benchmarks: run as modules from the root of the repository."""
