"""The demo of the virtual node: two clusters on this machine, and a pod of the one that runs on the other."""
