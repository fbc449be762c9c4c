"""Secrets: the entity first, then its value; the value comes back only by its own call."""

from tests.e2e.sdk.scripts.driving import PROJECT, attempt, dh, observe, open_project, plain

VALUE = 'xyzzy \u00e4\u00f6\u00fc \U0001f511 ""\nplugh'

project = open_project()
secret = project.new_secret(name="api-key", secret_value=VALUE, description="for the tests")
project.new_secret(name="other-key", secret_value="other")
observe("made", entity=plain(secret), value=VALUE)
observe("listed", entities=[plain(one) for one in project.list_secrets()])
found = dh.get_secret("api-key", project=PROJECT)
observe("got", id=found.id, made=secret.id, value=found.read_secret_value(), path=found.spec.path)
found.set_secret_value("changed")
observe("changed", value=dh.get_secret("api-key", project=PROJECT).read_secret_value())
observe("no such secret", **attempt(lambda: dh.get_secret("nothing", project=PROJECT)))
dh.delete_secret("api-key", project=PROJECT, entity_id=secret.id)
observe("deleted", names=[one.name for one in project.list_secrets()])
reborn = project.new_secret(name="api-key", secret_value="new")
observe("made again", value=reborn.read_secret_value())
