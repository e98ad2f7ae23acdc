"""The people who do the work: each role is a class with one `step`, and `loop` holds the only while."""
