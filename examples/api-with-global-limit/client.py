"""Three clients of an API share what the machine behind it can do."""

import json
import os
import time
import urllib.request

SERVER = os.environ.get("RATEKEEPER_SERVER", "http://127.0.0.1:8080")


def check(key, **more):
    question = {"policy": "api", "key": "header:x-api-key=" + key, **more}
    request = urllib.request.Request(SERVER + "/v1/check", json.dumps(question).encode())
    with urllib.request.urlopen(request, timeout=2) as response:
        return json.load(response)


def ask(key):
    answer = check(key)
    left = ", ".join(f"{limit['name']} {limit['remaining']}" for limit in answer["limits"])
    said = "let in" if answer["allowed"] else f"refused by {answer['limit']}"
    print(f"{key}: {said}; left: {left}")
    return answer


if __name__ == "__main__":
    for key in ["a", "b"]:
        for _ in range(5):
            check(key)
    ask("a")
    ask("c")
    ask("c")
    refused = ask("c")
    # Exactly as long as it takes: a millisecond less would be refused again.
    time.sleep(refused["retry_after_ms"] / 1000)
    print("c:", "let in" if check("c")["allowed"] else "refused", "after the wait that it was told")
