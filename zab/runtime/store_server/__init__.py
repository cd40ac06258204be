"""The coordination store at work on a member: its sessions, and the doors through which clients come in."""
