"""The transaction coordinator. It commits a transaction in all of its partitions, or aborts it in all of them."""
