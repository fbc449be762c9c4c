"""Why a container cannot start, from the kubelet's words."""


def is_root_refusal(message: str) -> bool:
    """Whether this is the kubelet's message for root; it differs for images with a non-numeric user."""
    return "runAsNonRoot" in message and ("image will run as root" in message or "non-numeric user" in message)
