"""The soak: a fleet of real processes under a steady churn for a long time, sampled from outside, and judged at the end.

It is a test, not a benchmark: it has bars, and a broken one is a failure. So it lives here, beside the fleet and the services it is
made of; its short form runs with the other tests, its long form is `make soak`. How to read it: docs/how-to/soak.md.
"""
