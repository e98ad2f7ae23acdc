"""`duly dev --demo`: a shop with forty jobs that has lived for some hours already, and whose time passes as fast as you like.

shop    the application: an ordinary one, with jobs that fail, retry, overlap, wait and fan out
town    where it lives: the real roles and the real store in virtual time, which a thread lets pass at a speed
door    the same API and pages as anywhere else, on that store and by that clock
bar     what only the demo has: how fast time passes, on top of every page, and the route behind it
run     the command
"""
