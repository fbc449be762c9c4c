"""Container functions of the local engine, run by podman or docker where the machine has one.

Start in `runtime.py`: which runtime there is and how it must be called. `container_plan.py` turns a container into
pieces of a plan of `procs`; `container_process.py` is the program that the supervisor then starts in place of podman or
docker. `private_store.py` keeps what podman stores about containers, secrets among it, in memory. `strays.py` removes
containers without a supervisor. May import `app.engine`, `domain`, `manifests`, `spec` and `procs`.
"""

from runyard.engines.local.containers.container_plan import IMAGE_STEP, ContainerPlan, has_image, plan_container
from runyard.engines.local.containers.run_options import Container
from runyard.engines.local.containers.runtime import ContainerRuntime, RuntimeMissing, find_runtime
from runyard.engines.local.containers.strays import remove_strays

__all__ = [
    "IMAGE_STEP",
    "Container",
    "ContainerPlan",
    "ContainerRuntime",
    "RuntimeMissing",
    "find_runtime",
    "has_image",
    "plan_container",
    "remove_strays",
]
