"""Reads a Chrome trace of torch's profiler: what ran on the GPU, and the calls of the host that started it."""

import bisect
import collections
import gzip
import json
import re

ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
CALLS = ("cuda_runtime", "cuda_driver")
NCCL = re.compile(r"nccl(?:Dev)?Kernel_([A-Za-z]+)")
MESSAGE = re.compile(r"nccl:(send|recv)\b")
MESSAGES = {"send": "send", "recv": "receive"}

Work = collections.namedtuple("Work", "begin end name category stream call told")
Call = collections.namedtuple("Call", "begin end name thread")


class Trace:
    """The events of one rank. Times are microseconds."""

    def __init__(self, path):
        opened = gzip.open(path) if path.suffix == ".gz" else path.open("rb")
        with opened as file:
            events = json.load(file)["traceEvents"]
        self.calls = {}  # by correlation
        self.work = []  # on the GPU, by begin
        self._marks = collections.defaultdict(list)  # by thread of the host
        for event in events:
            if event.get("ph", "X") == "X" and "dur" in event:
                self._add(event)
        self.work.sort(key=lambda each: each.begin)
        for marks in self._marks.values():
            marks.sort()

    def _add(self, event):
        category = event.get("cat")
        begin, end, name = event["ts"], event["ts"] + event["dur"], event["name"]
        arguments = event.get("args", {})
        thread = (event.get("pid"), event.get("tid"))
        if category in CALLS:
            correlation = arguments.get("correlation", ("without", len(self.calls)))
            self.calls[correlation] = Call(begin, end, name, thread)
        elif category in ON_GPU:
            stream = (arguments.get("device"), arguments.get("stream"))
            self.work.append(Work(begin, end, name, category, stream, arguments.get("correlation"),
                                  arguments.get("Collective name")))
        elif category in ("user_annotation", "cpu_op"):
            found = MESSAGE.match(name)
            told = found.group(1) if found else arguments.get("Collective name")
            if told in MESSAGES:
                self._marks[thread].append((begin, end, told))

    def launch(self, work):
        """The call of the host that started something on the GPU; None if the trace does not have it."""
        return self.calls.get(work.call)

    def kind(self, work):
        """The kind of NCCL's kernel; None for anything else. Messages of one rank to another are told apart
        where the trace says which they are."""
        found = NCCL.search(work.name)
        if not found or found.group(1) != "SendRecv":
            return found.group(1) if found else None
        return MESSAGES.get(work.told) or MESSAGES.get(self._marked(work)) or "SendRecv"

    def _marked(self, work):
        """What the host said it was doing when it started the work."""
        launch = self.launch(work)
        if launch is None:
            return None
        marks = self._marks[launch.thread]
        place = bisect.bisect_right(marks, (launch.begin, float("inf"), "")) - 1
        while place >= 0:
            begin, end, told = marks[place]
            if begin <= launch.begin <= end:
                return told
            place -= 1
            if begin + 1e6 < launch.begin:  # no call takes a second
                break
        return None
