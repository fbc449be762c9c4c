"""The storm over the Kubernetes engine: hundreds of runs, every fault, and a judge that counts what went wrong.

`python -m tests.chaos --runs 300 --seconds 1800 --seed 7` is the long form; tests/cluster/chaos the short one.

- `workloads.py`: the runs and their programs, by seed. `faults.py`: what breaks, and when, by the same seed.
- `servers.py`: the servers that are killed and frozen. `storm.py` puts all of it together.
- `witness.py`, `kept_logs.py`, `audit_log.py`: what really happened, by ways that the engine does not use.
- `evidence.py`: all that is known of each run at the end; `judge.py` holds it against the rules; `report.py` prints.

Servers have exactly the rights that `runyard server rbac` prints. Nothing else here uses `runyard.engines`,
`runyard.kube` or `runyard.manifests`: the judge shares no code with the engine.
"""
