"""An S3-compatible server on loopback that checks signatures; run by the python of its own environment.

Prints a line of JSON once it is ready: endpoint, bucket, credentials. Ends when its standard input does.
"""

import json
import os
import sys
from typing import Any

# So many calls without a signature, by which a user is made; every later one is checked by botocore's own signer.
SET_UP_CALLS = 8
os.environ["INITIAL_NO_AUTH_ACTION_COUNT"] = str(SET_UP_CALLS)

import boto3  # type: ignore[import-not-found]  # noqa: E402 - the variable comes first
from moto.server import ThreadedMotoServer  # type: ignore[import-not-found]  # noqa: E402


def make_user(iam: Any, name: str, resources: list[str]) -> dict[str, str]:
    """A user who may do everything with these, and the key of that user."""
    iam.create_user(UserName=name)
    key: dict[str, str] = iam.create_access_key(UserName=name)["AccessKey"]
    policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": resources}]}
    iam.put_user_policy(UserName=name, PolicyName="all", PolicyDocument=json.dumps(policy))
    return key


def main() -> None:
    """Serve, say where, wait."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    anyone = {"aws_access_key_id": "x", "aws_secret_access_key": "x", "region_name": "us-east-1"}
    iam = boto3.client("iam", endpoint_url=endpoint, **anyone)
    s3 = boto3.client("s3", endpoint_url=endpoint, **anyone)
    key = make_user(iam, "runyard", ["*"])
    s3.create_bucket(Bucket="logs")
    client_key = make_user(iam, "client", ["arn:aws:s3:::files", "arn:aws:s3:::files/*"])
    s3.create_bucket(Bucket="files")
    told = {"endpoint": endpoint, "bucket": "logs", "files_bucket": "files"}
    told |= {"access_key": key["AccessKeyId"], "secret_key": key["SecretAccessKey"]}
    told |= {"client_access_key": client_key["AccessKeyId"], "client_secret_key": client_key["SecretAccessKey"]}
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    main()
