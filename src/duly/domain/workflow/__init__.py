"""Workflows: jobs made of steps, each an execution like any other.

step        what a step is
check       refuses what cannot be a workflow
conditions  the small language of `when`
advance     what follows from the ends of steps: the only place that decides it
inputs      what a step is given of its parents' results
picture     the graph and the timeline as SVG
"""
