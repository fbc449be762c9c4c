"""Admission: the last validator. Reads exactly what will be sent; does not know how the objects were made.

Start at `admitted_objects.admit`, which returns the bytes to send, and `objects.check_objects`, which lists the reasons
not to send them. It fails closed, in two steps:
1. Shapes: `plain_json`, `shapes`, `object_shapes` and `pod_shapes` accept only the kinds, keys and values that we send.
2. Content: `identity` and `labels_and_annotations` check whose objects they are, `pods` Pod Security and references.
   `facts` and `amounts` collect the values that rules apply to. `rule_enforcement`, `locks` and `denial_checks` hold
   them against the admin's inputs (`admin_inputs`). `profile_guarantees` checks that the profile's values arrived.
`project_objects` checks the few objects that outlive runs.

May import `pods` and `spec`; never `domain.resolution`, `domain.layer_merge` or `manifests`.
"""

from runyard.domain.admission.admitted_objects import (
    AdmittedObject,
    AdmittedObjects,
    admit,
    admit_project_objects,
)
from runyard.domain.admission.objects import check_objects

__all__ = ["AdmittedObject", "AdmittedObjects", "admit", "admit_project_objects", "check_objects"]
