"""Kubernetes' own schema: quantities, affinity, tolerations, label selectors, validated as the apiserver does."""
