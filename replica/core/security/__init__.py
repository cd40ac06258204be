"""The identity of clients and their permissions: SASL, principals, ACLs."""
