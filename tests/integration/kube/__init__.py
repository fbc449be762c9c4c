"""`kube` on this machine's network, without a cluster."""
