"""`duly dev --demo`: a shop with forty jobs that has lived for some hours already.

shop    the application: an ordinary one, with jobs that fail, retry, overlap, wait and fan out
past    its hours before now, lived through in virtual time on the real roles, and written to an empty store
"""
