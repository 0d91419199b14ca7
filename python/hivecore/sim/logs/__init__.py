"""Shows decision logs of schedulers: the command `hivecore log`."""
