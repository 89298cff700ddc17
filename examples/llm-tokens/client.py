"""Holds an estimate of the tokens while a model answers, and charges what the answer took."""

import json
import os
import urllib.error
import urllib.request

SERVER = os.environ.get("RATEKEEPER_SERVER", "http://127.0.0.1:8080")


def post(path, question):
    headers = {"Prefer": "status=429"}
    request = urllib.request.Request(SERVER + path, json.dumps(question).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=2) as response:
            return json.load(response)
    except urllib.error.HTTPError as refusal:
        with refusal:
            return json.load(refusal)       # a problem object, which has a `status`


def model(prompt, most):
    """Stands for a model: how many tokens it takes is known when it is done."""
    if prompt == "crash":
        raise ConnectionError("the model is gone")
    return "…", {"short": 812, "long": 1_700}[prompt]


def complete(user, prompt, most):
    hold = post("/v1/reserve", {"policy": "llm", "key": "header:x-user=" + user, "cost": most})
    if "id" not in hold:
        return f"{hold['status']} {hold['detail']}"
    try:
        _, used = model(prompt, most)
    except ConnectionError as wrong:
        back = post("/v1/refund", {"id": hold["id"]})
        return f"{wrong}: held {back['held']}, charged {back['charged']}"
    # Safe to send again if its answer is lost: an id is settled once.
    end = post("/v1/settle", {"id": hold["id"], "cost": used})
    return f"held {end['held']}, charged {end['charged']}"


if __name__ == "__main__":
    for prompt, most in [("short", 4_000), ("crash", 4_000), ("long", 1_000), ("short", 9_000), ("short", 20_000)]:
        print(f"{prompt}, at most {most}: {complete('u1', prompt, most)}")
