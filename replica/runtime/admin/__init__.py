"""Where a broker tells its operators how it is."""
