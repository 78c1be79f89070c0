"""One module a scenario; ``benchmarks.registry`` lists them."""
