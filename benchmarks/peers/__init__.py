"""The peers, measured in one run beside Duly: the same jobs, the same questions, the same servers, in turns.

    python -m benchmarks.peers.install
    python -m benchmarks.peers --short

`systems/` says what each system is and in which settings it is measured. `programs/` has what runs inside of each: a handler that
makes a mark first of all, and a producer. Programs live in the peers' own environment; nothing of it enters the project's.
"""
