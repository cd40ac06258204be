"""What a server of the store decides for its clients: connections, sessions, throttles. Pure: values in, values out."""
