"""Texts of the cluster, as they are shown."""


def cut_text(text: str, most_bytes: int) -> str:
    """The beginning of a text, in so many bytes of UTF-8."""
    if len(text) * 4 <= most_bytes and text.isascii():
        return text
    return text.encode(errors="replace")[:most_bytes].decode(errors="ignore")
