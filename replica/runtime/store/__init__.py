"""What a broker reads from the store and writes to it on behalf of clients."""
