"""The process and its machine: clocks, logs, files, the watchdog, tuning. The broker uses these modules as well."""
