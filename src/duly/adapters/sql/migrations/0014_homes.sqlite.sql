-- More than one store: where a tenant lives, and how it leaves (docs/decisions/0023-several-stores.md).

-- standing: 0 here, 1 leaving, 2 arriving, 3 gone; store: the other side of that, by its name.
ALTER TABLE tenants ADD COLUMN standing INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tenants ADD COLUMN store TEXT;
