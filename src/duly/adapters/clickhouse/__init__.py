"""Records of finished executions in ClickHouse, and the same questions over Parquet files for those without a server.

`columns` is the one schema, `queries.sql` the questions, in the words that ClickHouse and DuckDB share. `server` speaks to a ClickHouse,
`parquet` writes files and asks them with DuckDB.
"""
