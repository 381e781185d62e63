#!/usr/bin/env python3
"""What bench/gpu/overlap.py says of a trace of two passes whose times are known."""

import gzip
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "bench" / "gpu" / "overlap.py"
MESSAGE = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
COMPUTING, RECEIVING, SENDING = 7, 20, 24


def event(category, name, begin, end, thread=1, **arguments):
    """An event as torch's profiler writes it; times in milliseconds."""
    return {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": thread, "ts": begin * 1000.0,
            "dur": (end - begin) * 1000.0, "args": arguments}


def started(number, stream, name, call, ran, category="kernel", **arguments):
    """The host's call and what ran on the GPU because of it."""
    return [event("cuda_runtime", "cudaMemcpyAsync" if category == "gpu_memcpy" else "cudaLaunchKernel",
                  call, call + 2, correlation=number, cbid=211),
            event(category, name, *ran, thread=stream, device=0, stream=stream, correlation=number, **arguments)]


EVENTS = [
    # The first receive, which the host calls one. Its pass is queued before the message is there.
    event("user_annotation", "nccl:recv 1<-0", 0, 6),
    *started(1, RECEIVING, MESSAGE, 1, (5, 105)),
    *started(2, COMPUTING, "gemm_a", 10, (105, 205)),
    *started(3, COMPUTING, "gemm_b", 14, (205, 255)),
    event("user_annotation", "nccl:send 1->0", 19, 25),
    *started(4, SENDING, MESSAGE, 20, (255, 300)),
    # The second receive, as newer traces tell it, beside the first pass.
    *started(5, RECEIVING, MESSAGE, 30, (110, 180), **{"Collective name": "recv"}),
    *started(6, COMPUTING, "gemm_c", 40, (300, 390)),
    event("cuda_runtime", "cudaStreamSynchronize", 50, 400, correlation=7, cbid=131),
    *started(8, COMPUTING, "Memcpy DtoH (Device -> Pageable)", 402, (390, 395), "gpu_memcpy"),
    {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}},
    {"ph": "f", "cat": "ac2g", "name": "ac2g", "id": 1, "pid": 0, "tid": 7, "ts": 5.0}]


def rows_of(text):
    """The cells of each row by the first cell."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line]
    return [(row[0], row[1:]) for row in rows]


class OverlapTest(unittest.TestCase):
    def run_on(self, text, name="trace.json", pack=bytes):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / name
            path.write_bytes(pack(text.encode()))
            return subprocess.run(
                [sys.executable, PROGRAM, path], capture_output=True, text=True, check=False)

    def test_says_what_ran_beside_what_and_how_far_the_host_was_ahead(self):
        text = json.dumps({"traceEvents": EVENTS})
        ran = self.run_on(text)
        self.assertEqual(ran.stderr, "")
        rows = rows_of(ran.stdout)
        self.assertEqual(rows[2:5], [
            ("trace.json", ["215.00 ms", "70.00 ms (33%)", "175.00 ms", "0.00 ms", "0.00 ms"]),
            ("… receive, 2 calls", ["170.00 ms", "70.00 ms (41%)", "", "", ""]),
            ("… send, 1 calls", ["45.00 ms", "0.00 ms (0%)", "", "", ""])])
        # Passes begin with a and c, 95 and 260 ms after their calls. The host waits for the first receive from
        # 50 to 105, and while the send is alone.
        self.assertEqual(rows[7:], [
            ("trace.json", ["2", "177.50 ms, 95.00 ms", "191.00 ms", "352.00 ms", "100.00 ms"]),
            ("… cudaMemcpyAsync, DtoH, 1 calls", ["", "", "", "2.00 ms", "0.00 ms"]),
            ("… cudaStreamSynchronize, 1 calls", ["", "", "", "350.00 ms", "100.00 ms"])])
        self.assertEqual(
            self.run_on(text, "trace.json.gz", gzip.compress).stdout,
            ran.stdout.replace("trace.json", "trace.json.gz"))

    def test_does_not_guess_which_message_it_is(self):
        silent = [each for each in EVENTS if each.get("cat") != "user_annotation"]
        rows = rows_of(self.run_on(json.dumps({"traceEvents": silent})).stdout)
        self.assertEqual([name for name, _ in rows[2:5]],
                         ["trace.json", "… SendRecv, 2 calls", "… receive, 1 calls"])
        self.assertEqual(rows[7][1][0], "2")

    def test_a_trace_without_a_gpu_has_empty_rows_and_other_files_are_refused(self):
        rows = rows_of(self.run_on('{"traceEvents": []}').stdout)
        self.assertEqual(rows[-1], ("trace.json", ["0", "-, -", "-", "0.00 ms", "0.00 ms"]))
        for text in ("", "[]", '{"traceEvents": [{"dur": 1}]}', '{"traceEvents": 3}'):
            ran = self.run_on(text)
            self.assertEqual(ran.returncode, 1, text)
            self.assertIn("is no trace that can be read", ran.stderr)


if __name__ == "__main__":
    unittest.main()
