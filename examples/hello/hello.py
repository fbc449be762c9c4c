"""The smallest function: a parameter in, a line in the log, a result out. The handler is `hello`."""


def hello(name: str = "world") -> dict[str, str]:
    """Greet somebody."""
    print(f"hello {name}")
    return {"greeting": f"hello {name}"}
