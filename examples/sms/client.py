"""Sends a code unless one was sent within the minute, and passes the refusal on as HTTP says it."""

import json
import os
import urllib.error
import urllib.request

SERVER = os.environ.get("RATEKEEPER_SERVER", "http://127.0.0.1:8080")


def send_code(phone):
    question = {"policy": "sms", "key": "header:x-phone=" + phone}
    # With `status=true` a refusal is a 429 with its fields: a web application can hand it on as it is.
    request = urllib.request.Request(SERVER + "/v1/check?status=true", json.dumps(question).encode())
    try:
        urllib.request.urlopen(request, timeout=2).close()
    except urllib.error.HTTPError as refusal:
        problem = json.load(refusal)
        wait, limits = refusal.headers["Retry-After"], refusal.headers["RateLimit"]
        return f"{refusal.code}, Retry-After: {wait}, RateLimit: {limits}\n  {problem['detail']}"
    return "sent"


if __name__ == "__main__":
    for phone in ["+33 1 99 00 00 01", "+33 1 99 00 00 01", "+33 1 99 00 00 02"]:
        print(f"{phone}: {send_code(phone)}")
