"""Parts of any server process: clocks, logs, files, the watchdog, tuning. The broker uses these modules as well."""
