"""The Python SDK: declare jobs, enqueue executions, and see what a handler sees."""
