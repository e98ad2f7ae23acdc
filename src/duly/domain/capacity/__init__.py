"""Capacity: what schedules, durations, pools and hardware come to.

Pure like the rest of the domain: a load and a fleet in, figures out; the same seed gives the same figures.

    spans       how long runs take
    load        what comes up and when: classes of jobs that are alike, cut into slices
    costs       what one fire, claim or finish costs, and what there is to pay with
    stations    where work is done in turn: processors, slots, the dispatcher
    simulation  the run itself
    figures     what is kept of a run: lateness, depth, use, by the minute
    forecast    the question and its answer; how many slots would do
    words       the answer for people
"""
