-- What a dispatcher says of itself: where it runs, and how far its machine's clock is from the store's. NULL from an older release.
ALTER TABLE dispatchers ADD COLUMN about TEXT;
