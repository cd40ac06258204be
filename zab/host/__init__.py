"""The process and its machine: logs, the watchdog, process tuning. The broker uses these modules as well."""
