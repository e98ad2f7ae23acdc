"""A store around the store that tells how long a batch took, how many it was about, how late it was and what was refused."""
