"""The transaction coordinator. A transaction ends alike in all of its partitions: committed or aborted."""
