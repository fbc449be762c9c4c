"""Rules of `image`, over the images of a pod: parsed in CEL into the parts that `spec.images` parses.

References that `spec` would not read, and IPv6 registries, whose spelling CEL cannot normalise, are refused.
"""

from collections.abc import Iterable, Iterator, Mapping

from runyard.engines.kubernetes.project_rules.cel import (
    all_of,
    any_of,
    glob_to_regex,
    is_one_of,
    matches_any,
    quote,
)
from runyard.engines.kubernetes.project_rules.checks import Check, describe, make_check
from runyard.engines.kubernetes.project_rules.wall_inputs import WallInputs
from runyard.spec.image_patterns import ImagePattern, parse_pattern
from runyard.spec.images import get_default_port
from runyard.spec.policy import Scope

_COMPONENT = "[a-z0-9]+((\\.|_|__|-+)[a-z0-9]+)*"
_HOST = "[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?(\\.[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)*"
_OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = f"{_OCTET}(\\.{_OCTET}){{3}}"
_NUMERIC = "(^|\\.)([0-9]+|0[xX][0-9a-fA-F]*)$"
_PORT = "0*([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_TAG = "[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_DIGEST = "(sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128})"
_HUB = ("docker.io", "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com")

_HUB_HOSTS = f"[{', '.join(map(quote, _HUB))}]"
_USUAL_PORT = '({0} == "localhost" || {0}.startsWith("127.") ? "80" : "443")'

_REFERENCE = f"^(({_HOST})(:{_PORT})?/)?{_COMPONENT}(/{_COMPONENT})*(:{_TAG})?(@{_DIGEST})?$"


def _is_reference(text: str) -> str:
    """Whether a text is a reference of the grammar. A host that ends in a number must be an IPv4 address."""
    first = f'{text}.split("/")[0]'
    is_domain = f'{text}.contains("/") && ({first} == "localhost" || {first}.matches("[.:A-Z]"))'
    is_host = all_of(
        f"{first}.matches({quote(f'^{_HOST}(:{_PORT})?$')})",
        any_of(
            f'!{first}.split(":")[0].matches({quote(_NUMERIC)})',
            f'{first}.split(":")[0].matches({quote(f"^{_IPV4}$")})',
        ),
    )
    return all_of(
        f"{text}.matches({quote(_REFERENCE)})",
        f'!{text}.matches("^[a-f0-9]{{64}}$")',
        f"({is_domain}) ? ({is_host}) : true",
    )


VARIABLES: Mapping[str, str] = {
    "images": (
        "[string(object.spec.containers[0].image)] + (has(object.spec.volumes) ? "
        "object.spec.volumes.filter(v, has(v.image)).map(v, string(v.image.reference)) : [])"
    ),
    "imageNames": (
        f"variables.images.filter(i, {_is_reference('i')}).map(i, "
        'i.contains("/") && (i.split("/")[0] == "localhost" || '
        'i.split("/")[0].matches("[.:A-Z]")) ? '
        '{"text": i, "domain": i.split("/")[0], "rest": i.substring(i.indexOf("/") + 1)} : '
        '{"text": i, "domain": "docker.io", "rest": i})'
    ),
    "imageParts": (
        'variables.imageNames.map(p, {"text": p.text, "written": p.domain.split(":")[0].lowerAscii(), '
        '"port": p.domain.contains(":") ? p.domain.split(":")[1] : "", '
        '"named": p.rest.split("@")[0], '
        '"digest": p.rest.contains("@") ? p.rest.substring(p.rest.indexOf("@") + 1) : ""})'
    ),
    "imageHosts": (
        'variables.imageParts.map(p, {"text": p.text, "written": p.written, "digest": p.digest, '
        f'"host": p.written in {_HUB_HOSTS} ? "docker.io" : p.written, '
        f'"port": p.port == "" ? {_USUAL_PORT.format("p.written")} : string(int(p.port)), '
        '"path": p.named.split(":")[0], '
        '"tag": p.named.contains(":") ? p.named.substring(p.named.indexOf(":") + 1) : '
        '(p.digest == "" ? "latest" : "")})'
    ),
    "imageReferences": (
        'variables.imageHosts.map(p, {"text": p.text, "host": p.host, "written": p.written, "port": p.port, '
        '"tag": p.tag, "digest": p.digest, '
        '"repository": p.host == "docker.io" && !p.path.contains("/") ? "library/" + p.path : p.path, '
        f'"registry": p.host + (p.port == {_USUAL_PORT.format("p.host")} ? "" : ":" + p.port)}})'
    ),
}
"""Each is made of the one before. References of another form are left out: `image.form` refuses them."""

_NAME = 'r.registry + "/" + r.repository'
_FULL = f'{_NAME} + (r.tag == "" ? "" : ":" + r.tag) + (r.digest == "" ? "" : "@" + r.digest)'


def check_images(inputs: WallInputs) -> Iterator[Check]:
    """The checks of the rules of `image`; none if there are none."""
    rules = list(inputs.iter_rules("image"))
    if not any(rule.can_refuse for _, rule in rules):
        return
    ours = [*inputs.list_values("image"), *inputs.python_images.values()]
    in_volumes = [volume.image for volume in inputs.list_profile_volumes() if volume.image is not None]
    is_admins = is_one_of("r.text", [*ours, *in_volumes])
    form = f"variables.images.all(i, {any_of(is_one_of('i', [*ours, *in_volumes]), _is_reference('i'))})"
    yield make_check("image", "form", None, form, allowed="[host[:port]/]path[:tag][@digest], no IPv6 host")
    for scope, rule in rules:
        if rule.options is not None:
            yield _check_each("options", scope, any_of(is_admins, is_one_of("r.text", rule.options)), rule.options)
        if rule.allowed is not None:
            allowed = any_of(is_admins, *(_allows(parse_pattern(pattern)) for pattern in rule.allowed))
            yield _check_each("allowed", scope, allowed, rule.allowed)
        if rule.denied:
            denied = any_of(*(_denies(pattern) for pattern in rule.denied))
            yield _check_each("denied", scope, any_of(is_admins, f"!({denied})"), rule.denied, prefix="none of ")
    lock = inputs.find_lock("image")
    if lock is not None and lock[1] is None:
        yield _check_each("locked", lock[0], is_admins, ())
    elif lock is not None:
        main = f"variables.images[0] == {quote(lock[1])}"
        volumes = f"variables.images.all(i, {is_one_of('i', [lock[1], *in_volumes])} || i == variables.images[0])"
        yield make_check("image", "locked", lock[0], all_of(main, volumes), allowed=lock[1])


def _check_each(clause: str, scope: Scope, condition: str, values: Iterable[str], *, prefix: str = "") -> Check:
    expression = f"variables.imageReferences.all(r, {condition})"
    allowed = f"{prefix}{describe('image', values)}" if values else "only a profile may set it"
    return make_check("image", clause, scope, expression, allowed=allowed)


def _allows(pattern: ImagePattern) -> str:
    if pattern.digest is None:
        digest = "true" if pattern.tag is None else 'r.digest == ""'
    else:
        digest = all_of('r.digest != ""', _matches("r.digest", pattern.digest))
    tag = "true" if pattern.tag is None else _matches("r.tag", pattern.tag)
    return all_of(digest, tag, _matches_name(pattern, hosts=("r.host",), is_any_port=False))


def _denies(written: str) -> str:
    pattern = parse_pattern(written)
    name = _matches_name(pattern, hosts=("r.host", "r.written"), is_any_port=True)
    tag = "true" if pattern.tag is None else _matches("r.tag", pattern.tag)
    if pattern.digest is None:
        parts = tag
    else:
        is_exact = "*" not in pattern.digest
        parts = all_of('r.digest != ""', _matches("r.digest", pattern.digest), "true" if is_exact else tag)
    as_text = any_of(_matches(f"({_NAME})", written.lower()), _matches(f"({_FULL})", written.lower()))
    return any_of(all_of(name, parts), as_text)


def _matches_name(pattern: ImagePattern, *, hosts: tuple[str, ...], is_any_port: bool) -> str:
    if pattern.host is None:
        return matches_any(f"({_NAME})", pattern.repositories)
    host = any_of(*(_matches(one, pattern.host) for one in hosts))
    return all_of(
        host, _matches_port(pattern, is_any_port=is_any_port), matches_any("r.repository", pattern.repositories)
    )


def _matches_port(pattern: ImagePattern, *, is_any_port: bool) -> str:
    if pattern.port is not None:
        return f'r.port == "{int(pattern.port)}"' if pattern.port.isdecimal() else _matches("r.port", pattern.port)
    if is_any_port or pattern.host == "*":
        return "true"
    if pattern.host is not None and "*" not in pattern.host:
        return f'r.port == "{get_default_port(pattern.host)}"'
    return f"r.port == {_USUAL_PORT.format('r.host')}"


def _matches(value: str, pattern: str) -> str:
    if "*" in pattern:
        return f"{value}.matches({quote(glob_to_regex(pattern))})"
    return f"{value} == {quote(pattern)}"
