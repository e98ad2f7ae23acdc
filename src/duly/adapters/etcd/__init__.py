"""etcd, through its HTTP/JSON gateway: who is there. A hint; the store's leases decide."""
