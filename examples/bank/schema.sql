-- The bank's own tables. No key of ours says that a transfer happens once: nothing here would stop a second one.
CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL);
CREATE TABLE transfers (run TEXT NOT NULL, source INTEGER NOT NULL, target INTEGER NOT NULL, amount INTEGER NOT NULL);
CREATE TABLE orders (number INTEGER NOT NULL, run TEXT NOT NULL);
CREATE TABLE shipments (number INTEGER NOT NULL);

INSERT INTO accounts (id, balance) VALUES (0, 1000), (1, 1000), (2, 1000), (3, 1000), (4, 1000), (5, 1000), (6, 1000), (7, 1000), (8, 1000), (9, 1000);
