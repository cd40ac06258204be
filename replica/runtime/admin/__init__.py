"""The pages and metrics of a broker for its operators."""
