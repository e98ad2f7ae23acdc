"""Alerts: pure. Rules in, incidents out; time is an argument.

rule        what is watched, how patiently, and who is told
of_job      what a job's own definition wants to be told of it, as rules
facts       what was read of the store for it
judge       facts → readings: for each subject, whether the condition holds, and in which words
evaluate    reading + incident of before → the incident as it is now, and what is told of it
hush        when nobody is told: snoozed, quiet hours, maintenance
channel     where to tell, checked; secrets only by reference
message     what is said, in the shape that each channel takes
history     how often a rule would have fired
"""
