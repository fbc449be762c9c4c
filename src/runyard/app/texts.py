"""Texts from outside, cut so that they can be stored and listed."""


def cut_text(text: str, longest: int) -> str:
    """The first bytes, without the characters that no database stores: NUL and unpaired surrogates."""
    if len(text) * 4 <= longest and text.isascii() and "\0" not in text:
        return text
    storable = text[:longest].replace("\0", "\ufffd").encode(errors="replace")
    return storable[:longest].decode(errors="ignore")
