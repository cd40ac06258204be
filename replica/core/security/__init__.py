"""The identity of a client, and its rights: SASL, principals, ACLs."""
