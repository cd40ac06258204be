"""One replica of a partition: its log, its role, the ISR and the high watermark."""
