import pytest

from runyard.node.node_settings import NodeSettings, SettingsError


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("name", "K8S.GPU", "name 'K8S.GPU' cannot be used; allowed: a DNS name"),
        ("name", "a" * 64, "at most 63 characters"),
        ("tenant", "a" * 27, "tenant .* cannot be used; allowed: a DNS label of at most 26 characters"),
        ("tenant", "skg_0", "tenant 'skg_0' cannot be used"),
        ("domain", "-provider.tld", "domain '-provider.tld' cannot be used"),
        ("port", 70000, "port 70000 is out of range"),
        ("namespace", "a.b", "namespace 'a.b' cannot be used"),
    ],
)
def test_field_and_what_is_allowed_are_named_when_a_setting_is_wrong(field: str, value: object, words: str) -> None:
    fields = {"tenant": "skg00000", "domain": "cloud.provider.tld", field: value}
    with pytest.raises(SettingsError, match=words):
        NodeSettings(address="10.0.0.1", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(("given", "lacking"), [("tenant", "domain"), ("domain", "tenant")])
def test_the_other_one_is_asked_for_when_half_of_a_host_is_set(given: str, lacking: str) -> None:
    with pytest.raises(SettingsError, match=f"{lacking} is missing"):
        NodeSettings(address="10.0.0.1", **{given: "provider"})  # type: ignore[arg-type]
