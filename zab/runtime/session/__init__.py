"""What a session of the store can do, told once: for sessions in this process and for those of the client alike."""
