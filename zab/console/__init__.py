"""The web console: pages about a store for a browser, made by a client.

The console is a client of the servers, in a process of its own. It sees what its own identity may see, so the ACLs of
the servers apply to it, and a visitor can burden the console but no server. `ConsoleSite` answers the requests;
a `ConsolePart` has the pages about one system. `replica.console` adds a part for brokers.
"""
