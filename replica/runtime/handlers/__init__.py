"""What is done for each request. A module here is one family of requests, and offers them in a table."""
