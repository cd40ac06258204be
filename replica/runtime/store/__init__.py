"""A broker's access to the store on behalf of its clients."""
