"""The language of fault scripts: the contents of a script, and its forms as JSON and as text."""
