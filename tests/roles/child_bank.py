"""A handler in a child process that completes its attempt on a connection of its own."""

from __future__ import annotations

import psycopg

from duly import App, Context, Invalid

app = App("child")


@app.job(executor="process")
def transfer(ctx: Context, dsn: str) -> str:
    try:
        with ctx.transaction():
            pass
    except Invalid as error:
        refused = error.code
    with psycopg.connect(dsn) as connection:
        connection.execute("INSERT INTO bank_effects (n) VALUES (1)")
        ctx.complete_with(connection, refused)
    return refused
