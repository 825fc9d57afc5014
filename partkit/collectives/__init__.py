"""Collectives, written with point-to-point messages: one file an operation, each algorithm one function."""
