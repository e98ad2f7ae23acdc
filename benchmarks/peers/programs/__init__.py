"""What runs inside of each system. Every program takes the same commands; see `frame`."""
