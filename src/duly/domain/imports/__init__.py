"""Schedules of other systems: what they say, when they fire by their own rules, and the jobs that take their place.

Every module reads one kind of source and answers with drafts. Nothing here asks Duly's own cron core when the old system
fires: `walls` walks the clock by that system's rules, so that the difference between the two is a finding and not an echo.
"""
