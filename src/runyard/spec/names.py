"""Names as Kubernetes and DigitalHub allow them (DNS-1123 and DNS-1035 labels, …): checks return an error or None.

A name that passes is valid in Kubernetes 1.34 and 1.36; a check that is narrower on purpose says so. Letters are ASCII
letters. Patterns match the whole name: a trailing newline is an error.
"""

import re
from collections.abc import Callable

MOST_LABEL_CHARACTERS = 63
MOST_SUBDOMAIN_CHARACTERS = 253
MOST_PORT_NAME_CHARACTERS = 15
PROJECT_CHARACTERS = (2, 38)

_DNS_1123_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_DNS_1123_SUBDOMAIN = re.compile(rf"{_DNS_1123_LABEL.pattern}(?:\.{_DNS_1123_LABEL.pattern})*")
_DNS_1035_LABEL = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?")
_QUALIFIED_PART = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_ENV_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_PORT_NAME = re.compile(r"[-a-z0-9]+")
_SLUG = re.compile(r"[a-zA-Z0-9._+-]+")
_PROJECT = re.compile(r"[a-z0-9-]+")

_PART_CHARACTERS = "letters, digits, `-`, `_` and `.`, and begin and end with a letter or digit"


def check_dns_label(name: str) -> str | None:
    """A DNS-1123 label: names of namespaces, volumes, containers."""
    if error := _check_length(name, most=MOST_LABEL_CHARACTERS):
        return error
    if _DNS_1123_LABEL.fullmatch(name):
        return None
    if _DNS_1123_SUBDOMAIN.fullmatch(name):
        return "must not contain dots"
    return "must consist of lower-case letters, digits and `-`, and begin and end with a letter or digit"


def check_dns_subdomain(name: str) -> str | None:
    """A DNS-1123 subdomain: names of most objects (Jobs, claims, classes, nodes)."""
    if error := _check_length(name, most=MOST_SUBDOMAIN_CHARACTERS):
        return error
    if _DNS_1123_SUBDOMAIN.fullmatch(name):
        return None
    return (
        "must consist of lower-case letters, digits, `-` and `.`; each part between dots must begin and end with a "
        "letter or digit"
    )


def check_dns_1035_label(name: str) -> str | None:
    """A DNS-1035 label: names of Services. Kubernetes 1.36 also accepts DNS-1123 labels, 1.34 does not."""
    if error := _check_length(name, most=MOST_LABEL_CHARACTERS):
        return error
    if _DNS_1035_LABEL.fullmatch(name):
        return None
    return "must consist of lower-case letters, digits and `-`, begin with a letter and end with a letter or digit"


def check_qualified_name(name: str) -> str | None:
    """`name` or `prefix/name`: keys of labels, taints, tolerations and topologies, names of resources."""
    prefix, slash, last = name.rpartition("/")
    if slash and not prefix:
        return "has an empty prefix before `/`"
    if "/" in prefix:
        return "must have at most one `/`: NAME, or DNS-NAME/NAME"
    if slash and (error := check_dns_subdomain(prefix)):
        return f"must have a DNS name before `/`: it {error}"
    if error := _check_length(last, most=MOST_LABEL_CHARACTERS):
        return f"must have a valid name after `/`: it {error}" if slash else error
    if _QUALIFIED_PART.fullmatch(last):
        return None
    return f"must {'have a name after `/`: it must ' if slash else ''}consist of {_PART_CHARACTERS}"


check_toleration_key = check_qualified_name


def check_label_value(value: str) -> str | None:
    """A label's value; it may be empty."""
    if not value or (len(value) <= MOST_LABEL_CHARACTERS and _QUALIFIED_PART.fullmatch(value)):
        return None
    if error := _check_length(value, most=MOST_LABEL_CHARACTERS):
        return error
    return f"must be empty, or consist of {_PART_CHARACTERS}"


def check_env_name(name: str) -> str | None:
    """An environment variable's name.

    Narrower than Kubernetes, which accepts every printable ASCII character except `=`: shells cannot read such names.
    """
    if not name:
        return "must not be empty"
    if _ENV_NAME.fullmatch(name):
        return _check_parent_prefix(name)
    return "must consist of letters, digits, `_`, `-` and `.`, and not begin with a digit"


def check_config_key(key: str) -> str | None:
    """A key in a ConfigMap or Secret, which is also the name of the file it is mounted as."""
    if error := _check_length(key, most=MOST_SUBDOMAIN_CHARACTERS):
        return error
    if _CONFIG_KEY.fullmatch(key):
        return _check_parent_prefix(key)
    return "must consist of letters, digits, `-`, `_` and `.`"


def check_port_name(name: str) -> str | None:
    """A port's name in a container (RFC 6335 in lower case): at most 15 characters."""
    if error := _check_length(name, most=MOST_PORT_NAME_CHARACTERS):
        return error
    if not _PORT_NAME.fullmatch(name):
        return "must consist of lower-case letters, digits and `-`"
    if not any("a" <= character <= "z" for character in name):
        return "must contain a letter"
    if "--" in name:
        return "must not contain `--`"
    if name.startswith("-") or name.endswith("-"):
        return "must not begin or end with `-`"
    return None


def check_slug(name: str) -> str | None:
    """An id or name in DigitalHub's paths; bounded, as it becomes part of names in Kubernetes."""
    if error := _check_length(name, most=MOST_SUBDOMAIN_CHARACTERS):
        return error
    return None if _SLUG.fullmatch(name) else "must consist of letters, digits, `.`, `_`, `+` and `-`"


def check_project_name(name: str) -> str | None:
    """A project's name, which becomes part of a namespace's."""
    least, most = PROJECT_CHARACTERS
    if error := _check_length(name, most=most):
        return error
    if len(name) < least:
        return f"must have at least {least} characters"
    return None if _PROJECT.fullmatch(name) else "must consist of lower-case letters, digits and `-`"


def suggest_dns_label(name: str) -> str | None:
    """The nearest DNS-1123 label, or None where no valid character is left."""
    return _suggest(name.lower(), r"[^a-z0-9]+", check=check_dns_label, most=MOST_LABEL_CHARACTERS)


def suggest_dns_1035_label(name: str) -> str | None:
    """The nearest DNS-1035 label."""
    return _suggest(name.lower().lstrip("0123456789-_. "), r"[^a-z0-9]+", check=check_dns_1035_label, most=63)


def suggest_env_name(name: str) -> str | None:
    """The nearest name that a shell can read."""
    word = re.sub(r"[^A-Za-z0-9_]+", "_", name[:MOST_SUBDOMAIN_CHARACTERS]).strip("_")
    word = f"_{word}" if word[:1].isdigit() else word
    return word if word and word != name else None


def suggest_project_name(name: str) -> str | None:
    """The nearest project name."""
    return _suggest(name.lower(), r"[^a-z0-9]+", check=check_project_name, most=PROJECT_CHARACTERS[1])


def _suggest(name: str, strange: str, *, check: Callable[[str], str | None], most: int) -> str | None:
    word = re.sub(strange, "-", name[: 4 * most])
    word = re.sub(r"(?<!-)-*+\.[-.]*", ".", word).strip("-.")[:most].rstrip("-.")
    return word if word and check(word) is None else None


def _check_length(name: str, *, most: int) -> str | None:
    if not name:
        return "must not be empty"
    return f"must have at most {most} characters, not {len(name)}" if len(name) > most else None


def _check_parent_prefix(name: str) -> str | None:
    """Kubernetes' rule for names that become file names."""
    return "must not be `.` or begin with `..`" if name == "." or name.startswith("..") else None
