"""Conducting runs of workflows.

reader     what is known of a run: its workflow, the ends and results of its steps
maker      makes steps: headers, items, inner runs, waits
conductor  who comes next, when a step has ended
handing    the store's ports through which steps end, each followed by a hand-over
parents    what the steps before a step came to, for whoever runs it
dependents who waits for another job is told that it has succeeded
beside     hand-overs that nobody waits for
"""
