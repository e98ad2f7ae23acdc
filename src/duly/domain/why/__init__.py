"""Why an execution stands where it stands, and why a job did not run at a time.

Facts in, an answer out: the facts are a snapshot of the store, and the reasons follow from the same functions that decided.
The first reason is the one that matters most, and its sentence is the summary.
"""
