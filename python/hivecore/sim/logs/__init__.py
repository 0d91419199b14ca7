"""Decision logs of schedulers, shown: the command `hivecore log`."""
