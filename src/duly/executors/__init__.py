"""Executors: how a worker runs one attempt, on the event loop, in a thread, in a child process, as a command or as a webhook.

Each module makes `Handler`s for the worker's registry; nothing here decides what becomes of an attempt.
"""
