"""What breaks the rest on purpose, and says whether it broke.

It may import every package of this tree, and no package of this tree may import it.
"""
