#!/usr/bin/env python3
"""load.py --port N [--clients 1000] [--requests 4] [--tokens 16] [--pid PID]

Asks a running `cairn serve` from many connections at the same time, and checks every reply:

  1. each of 32 seeded requests alone: the texts that are right;
  2. all clients together, each with some of these requests, one after another: a reply is the
     right text, or status 429 or 503, after which the client waits a little and asks again;
  3. clients that leave in the middle of a streamed text;
  4. the texts of 1 once more, and that no text is left.

Prints requests and tokens a second, the seconds that requests took, how many were turned away,
and with --pid how much memory the server had at most. Exits with 1 if a reply was lost or wrong.
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
import time

KINDS = 32


def question(kind, tokens, stream=False):
    body = json.dumps({
        "prompt": [kind + 1, 2 * kind + 3], "max_tokens": 1 + kind % tokens, "seed": kind,
        "stream": stream})
    return (
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}").encode()


async def ask(port, bytes_out):
    """Status and body of the reply."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(bytes_out)
        await writer.drain()
        reply = await reader.read()
    finally:
        writer.close()
    head, _, body = reply.partition(b"\r\n\r\n")
    return int(head.split()[1]) if head else 0, body


async def text_of(port, kind, tokens):
    status, body = await ask(port, question(kind, tokens))
    if status != 200:
        raise SystemExit(f"status {status}: {body[:200]}")
    return json.loads(body)["choices"][0]["text"]


def peak_megabytes(pid):
    with open(f"/proc/{pid}/status") as lines:
        return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))


async def main(args):
    right = [await text_of(args.port, kind, args.tokens) for kind in range(KINDS)]
    before = peak_megabytes(args.pid) if args.pid else None
    seconds, turned_away, wrong, tokens = [], 0, 0, 0

    async def client(number):
        nonlocal turned_away, wrong, tokens
        for i in range(args.requests):
            kind = (number * 7 + i) % KINDS
            begin = time.monotonic()
            while True:
                try:
                    status, body = await ask(args.port, question(kind, args.tokens))
                except ConnectionError:
                    status, body = 0, b"no connection"
                if status not in (429, 503):
                    break
                turned_away += 1
                await asyncio.sleep(random.uniform(0.05, 0.5))
            seconds.append(time.monotonic() - begin)
            if status != 200 or json.loads(body)["choices"][0]["text"] != right[kind]:
                wrong += 1
                print(f"wrong: {status} {body[:200]}", file=sys.stderr)
            else:
                tokens += json.loads(body)["usage"]["completion_tokens"]

    begin = time.monotonic()
    await asyncio.gather(*(client(number) for number in range(args.clients)))
    took = time.monotonic() - begin

    async def leave(number):
        reader, writer = await asyncio.open_connection("127.0.0.1", args.port)
        writer.write(question(number % KINDS, args.tokens, stream=True))
        await writer.drain()
        await reader.read(40)
        writer.close()

    await asyncio.gather(*(leave(number) for number in range(min(args.clients, 200))))
    for kind in range(KINDS):
        wrong += await text_of(args.port, kind, args.tokens) != right[kind]
    left = 1
    for _ in range(100):
        _, metrics = await ask(
            args.port, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        left = int(metrics.split(b"\ncairn_texts ")[1].split()[0])
        if not left:
            break
        await asyncio.sleep(0.1)

    asked = args.clients * args.requests
    print(f"{args.clients} clients, {asked} requests in {took:.1f} s: {asked / took:.0f} requests and "
          f"{tokens / took:.0f} tokens a second; a request took {statistics.median(seconds):.2f} s "
          f"(median), {max(seconds):.2f} s at most; turned away {turned_away} times; "
          f"{wrong} replies wrong or lost; {left} texts left"
          + (f"; memory {before} MB before, {peak_megabytes(args.pid)} MB at most" if args.pid else ""))
    return 1 if wrong or left or len(seconds) != asked else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--requests", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--pid", type=int)
    sys.exit(asyncio.run(main(parser.parse_args())))
