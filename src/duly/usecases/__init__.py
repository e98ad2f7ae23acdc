"""What a person may ask: each use case checks, decides through the domain, and writes through the ports."""
