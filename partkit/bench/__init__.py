"""Benchmarks: ratios of things measured side by side in one run, so that they hold on any machine. A file each, with ``run(argv)``."""
