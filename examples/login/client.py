"""Asks before it looks at a password, and forgets the tries of an account when its password was right."""

import json
import math
import os
import urllib.parse
import urllib.request

SERVER = os.environ.get("RATEKEEPER_SERVER", "http://127.0.0.1:8080")
ADMIN = os.environ.get("RATEKEEPER_ADMIN", "http://127.0.0.1:9090")
PASSWORDS = {"ada@example.org": "lovelace", "bob@example.org": "builder"}


def account_key(account):
    # Callers choose their account names: naming the alternative keeps `ip=…` from meaning an address.
    return "header:x-account=" + account


def try_to_log_in(account, password, address):
    question = {"policy": "login", "key": account_key(account), "keys": {"address": "ip=" + address}}
    request = urllib.request.Request(SERVER + "/v1/check", json.dumps(question).encode())
    with urllib.request.urlopen(request, timeout=2) as response:
        answer = json.load(response)
    if not answer["allowed"]:
        minutes = math.ceil(answer["retry_after_ms"] / 60_000)
        return f"no more tries for this {answer['limit']}: come back in {minutes} min"
    if PASSWORDS.get(account) != password:
        left = {limit["name"]: limit["remaining"] for limit in answer["limits"]}
        return f"wrong password; left: account {left['account']}, address {left['address']}"
    forget(account)
    return "welcome"


def forget(account):
    key = urllib.parse.quote(account_key(account), safe="")
    request = urllib.request.Request(f"{ADMIN}/v1/keys/login/{key}", method="DELETE")
    urllib.request.urlopen(request, timeout=2).close()


if __name__ == "__main__":
    for _ in range(6):
        print("ada:", try_to_log_in("ada@example.org", "guess", "203.0.113.9"))
    print("ada, elsewhere:", try_to_log_in("ada@example.org", "lovelace", "198.51.100.1"))
    for password in ["bilder", "builder", "bilder"]:
        print("bob:", try_to_log_in("bob@example.org", password, "203.0.113.9"))
