"""Transactions: what producers have begun, and how it ends everywhere or nowhere. A coordinator that only computes."""
